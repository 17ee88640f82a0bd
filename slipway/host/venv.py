"""The driver's own virtual environment: made on first use from hash-locked requirement files with plain pip.

It lies beside build.py as .venv; where the checkout can't be written to, or where .venv is somebody else's or
belongs to another Python, it lies in the user's cache folder. A stamp says which requirements are in it, so that
every later start costs two small reads. slipway.host.venv_make does the making, and is imported only for that.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from slipway.errors import MissingError, SlipwayError

FORMAT = 1
"""Part of the stamp: raise it when an environment made by older code should be made again."""

VERB_SETS = {"test": ("build", "test")}
"""Requirement files (requirements/NAME.txt) that a verb needs; all others need DEFAULT_SETS."""

DEFAULT_SETS = ("build",)
LOCK = "slipway.lock"
"""File in the environment's folder: marks it as ours, names its Python, and is locked while it is being made."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
INTERRUPTED = 130
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


def hand_over(root: Path, arguments: Sequence[str]) -> int:
    """Run the driver in its environment and return its exit code. Called by build.py, in any Python from 3.11 on.

    The first call replaces this process by the environment's Python, which gets here again and finds itself inside.
    That Python runs isolated (-I): PYTHONPATH, PYTHONHOME and the like are the caller's, not the driver's.
    """
    try:
        folder = ensure(root, sets_for(arguments))
        if sys.flags.isolated and Path(sys.prefix).samefile(folder):
            sys.path.insert(0, str(root))
            from slipway.cli.main import main

            return main(arguments)
    except SlipwayError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return _become(folder / "bin" / "python", root / "build.py", arguments)


def _become(python: Path, script: Path, arguments: Sequence[str]) -> NoReturn:
    flags = ["-I", "-X", "utf8", *(["-B"] if sys.dont_write_bytecode else [])]
    sys.stderr.flush()
    os.execv(python, [str(python), *flags, str(script), *arguments])  # noqa: S606


def sets_for(arguments: Sequence[str]) -> tuple[str, ...]:
    """Which requirement files a command line needs: those of the first verb in it that needs more than the rest."""
    for argument in arguments:
        if argument in VERB_SETS:
            return VERB_SETS[argument]
    return DEFAULT_SETS


def ensure(root: Path, sets: Sequence[str]) -> Path:
    """The folder of an environment that holds `sets`, made or completed if need be.

    Raises MissingError when it can't be made here, WrongArtifact when a download has another hash.
    """
    stamps = {name: stamp_of(root, name) for name in sets}
    places = (root / ".venv", cache_place(root))
    for folder in places:
        if is_ours(folder) and not lacking(folder, stamps):
            return folder
    from slipway.host import venv_make

    for folder in places:
        if not is_free(folder) and not is_ours(folder):
            continue
        try:
            venv_make.complete(root, folder, stamps)
        except OSError as error:
            if error.errno in _NOT_WRITABLE:
                continue
            raise MissingError(
                "the driver's virtual environment can't be made", where=folder, why=f"{error.strerror}"
            ) from error
        return folder
    raise MissingError(
        "there is no place for the driver's virtual environment",
        where=" and ".join(map(str, places)),
        why="neither folder can be written to",
        remedy="make one of them writable, or set XDG_CACHE_HOME to a folder that is",
    )


def cache_place(root: Path) -> Path:
    """Where the environment lies when it can't lie beside build.py: one per checkout and Python."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111
    return home / "slipway" / "venv" / hashlib.sha256(f"{root} {PYTHON}".encode()).hexdigest()[:16]


def stamp_of(root: Path, name: str) -> str:
    """What the stamp of one requirement file has to say."""
    path = root / "requirements" / f"{name}.txt"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MissingError(
            f"{path.name} can't be read", where=path, why=str(error), remedy="get a complete checkout"
        ) from error
    return hashlib.sha256(f"{FORMAT} {PYTHON} ".encode() + content).hexdigest()


def lacking(folder: Path, stamps: dict[str, str]) -> list[str]:
    """The sets that are not, or no longer, in the environment."""
    if not (folder / "bin" / "python").exists():
        return list(stamps)
    return [name for name, stamp in stamps.items() if _read(stamp_file(folder, name)) != stamp]


def stamp_file(folder: Path, name: str) -> Path:
    return folder / f"slipway-{name}.stamp"


def is_ours(folder: Path) -> bool:
    """Whether the folder is an environment of the driver for this Python, or one whose Python is gone."""
    owner = _read(folder / LOCK)
    return owner is not None and (owner in (PYTHON, "") or not (folder / "bin" / "python").exists())


def is_free(folder: Path) -> bool:
    """Whether nothing lies there yet."""
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return not folder.is_symlink()
    except OSError:
        return False


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
