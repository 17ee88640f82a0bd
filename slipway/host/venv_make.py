"""Makes the driver's virtual environment; slipway.host.venv decides when and where.

The environment's lock is held meanwhile. An interrupted creation leaves no stamp, so it is done again.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from slipway.errors import MissingError, WrongArtifact
from slipway.host import apt, process
from slipway.host.venv import LOCK, PYTHON, lacking, stamp_file

PIP_SETTINGS = {
    "PIP_USER": "0",
    "PIP_CONSTRAINT": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
}
"""Settings that would bend or break an install whose every version is locked; where to download from stays pip's."""

PIP_DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_NO_BINARY", "PIP_DRY_RUN", "PIP_REQUIREMENT")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the environment's lock; gives its file descriptor.

    Children that get the descriptor hold the lock, too: were this process killed, its pip would finish first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another build.py that is setting up {folder}", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def complete(root: Path, folder: Path, stamps: dict[str, str]) -> None:
    """Install what the environment lacks, from scratch when something in it is of another time.

    Raises MissingError, WrongArtifact; OSError when the folder can't be written to.
    """
    with locked(folder) as lock:
        _complete(root, folder, stamps, lock)


def _complete(root: Path, folder: Path, stamps: dict[str, str], lock: int) -> None:
    wanted = lacking(folder, stamps)
    if not wanted:
        return
    old = [name for name in wanted if stamp_file(folder, name).exists()]
    if old or not (folder / "slipway-venv.stamp").exists() or not (folder / "bin" / "python").exists():
        wanted = list(stamps)
        create(folder, lock)
    for name in wanted:
        install(folder, root / "requirements" / f"{name}.txt", lock)
        stamp_file(folder, name).write_text(stamps[name])


def create(folder: Path, lock: int) -> None:
    """An empty environment with pip, in place of whatever lies in `folder`."""
    print(f"setting up the driver's Python {PYTHON} environment in {folder} (once)", file=sys.stderr, flush=True)
    for path in sorted(folder.iterdir(), key=lambda path: not path.name.endswith(".stamp")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()
    os.ftruncate(lock, 0)
    os.pwrite(lock, PYTHON.encode(), 0)
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        apt.install([f"python{PYTHON}-venv"], why="the driver's virtual environment is made with it")
    process.run([base_python(), "-I", "-m", "venv", folder], error=MissingError, pass_fds=[lock])
    stamp_file(folder, "venv").touch()


def base_python() -> str:
    """The interpreter itself, whatever environment or link build.py was started through.

    Resolved, so that an upgrade of the system's Python leaves a dangling link, which is noticed, instead of an
    environment whose packages are another version's.
    """
    return str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())


def install(folder: Path, requirements: Path, lock: int) -> None:
    """`pip install` of one locked file: wheels only, every hash checked, nothing resolved."""
    print(f"installing {requirements.name} of requirements/ with pip", file=sys.stderr, flush=True)
    command = [
        *(str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "-q", "--no-deps", "--require-hashes"),
        *("--only-binary=:all:", "-r", str(requirements)),
    ]
    kept = [name for name in os.environ if name.startswith("PIP_") and name not in PIP_DROPPED]
    result = process.run(command, pass_names=kept, env=PIP_SETTINGS, check=False, pass_fds=[lock])
    if result.code == 0:
        return
    if "DO NOT MATCH THE HASHES" in result.err:
        raise WrongArtifact(
            process.failure(command, result),
            where=requirements,
            why="the index serves other bytes than the ones this file was made from",
            remedy="ask the index's owner; if the change is wanted, make the file again (its first lines say how)",
        )
    raise MissingError(
        process.failure(command, result),
        where=requirements,
        why="the driver can't run without these packages",
        remedy="see that pip can reach an index from here (pip config list), then start again",
    )
