"""Room for jobs: memory where there is plenty, else a folder; and what killed builds left is swept away.

A job that has a mount namespace works on a tmpfs of its own, which ends with it. Without, or when memory is short,
it works in a folder `slipway-work-…` whose lock file tells whether its owner still lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from slipway.host import process
from slipway.sandbox.isolation import Isolation

PREFIX = "slipway-work-"
LOCK = "owner.lock"
SPARE = 2
"""How many times as much memory must be free as a job takes, before it may work in memory."""


def memory_available(meminfo: str, limit: str | None = None, used: str | None = None) -> int:
    """Bytes of memory that can be taken: MemAvailable of /proc/meminfo (proc(5)), less where a cgroup limits it."""
    available = 0
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if limit is not None and limit.strip().isdigit():
        taken = int(used) if used is not None and used.strip().isdigit() else 0
        available = min(available, max(int(limit) - taken, 0))
    return available


def fits_in_memory(size: int) -> bool:
    """Whether a tmpfs of `size` bytes would leave the machine as much again."""

    def read(path: str) -> str | None:
        try:
            return Path(path).read_text()
        except OSError:
            return None

    group = Path("/sys/fs/cgroup")
    return SPARE * size <= memory_available(
        read("/proc/meminfo") or "", read(str(group / "memory.max")), read(str(group / "memory.current"))
    )


@contextlib.contextmanager
def work_folder(parent: Path, isolation: Isolation) -> Iterator[Path]:
    """A folder of our own below `parent`, removed at the end with all that is in it, whoever it belongs to.

    Sweeps away what builds that were killed have left there.
    """
    parent = parent.absolute()  # the job runs in /
    parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _guard(parent):
            _sweep(parent, isolation)
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            stack.callback(remove, folder, isolation)
            owner = stack.enter_context((folder / LOCK).open("w"))
            fcntl.flock(owner, fcntl.LOCK_EX)
        yield folder


def sweep(parent: Path, isolation: Isolation) -> list[Path]:
    """Remove work folders below `parent` whose owner has died, and return them."""
    with _guard(parent):
        return _sweep(parent, isolation)


@contextlib.contextmanager
def _guard(parent: Path) -> Iterator[None]:
    """One at a time makes or sweeps folders: a folder without an owner is then one whose owner died."""
    with (parent / f".{PREFIX}guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def _sweep(parent: Path, isolation: Isolation) -> list[Path]:
    swept = []
    for folder in sorted(parent.glob(PREFIX + "*")):
        try:
            lock = (folder / LOCK).open()
        except FileNotFoundError:
            remove(folder, isolation)
            swept.append(folder)
            continue
        except OSError:
            continue  # another user's
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            remove(folder, isolation)
            swept.append(folder)
    return swept


def remove(folder: Path, isolation: Isolation) -> None:
    """Remove a tree, also one with files of subordinate users, without leaving through what is mounted in it."""
    if isolation.kind == "owners":
        # Those files belong to ids that only a user namespace of ours may touch.
        argv = isolation.wrap(["rm", "-rf", "--one-file-system", "--", str(folder)])
        subprocess.run(argv, env=process.environment(), stdin=subprocess.DEVNULL, check=False)
    if not unmount_below(folder):
        return  # removing would reach through what is mounted: a later sweep tries again
    with contextlib.suppress(FileNotFoundError):
        if sys.version_info >= (3, 12):
            shutil.rmtree(folder, onexc=lambda _function, path, _error: _unlock_and_retry(path))
        else:
            shutil.rmtree(folder, onerror=lambda _function, path, _error: _unlock_and_retry(path))


def _unlock_and_retry(path: str) -> None:
    """A folder without write permission stops rmtree; its owner may give that back."""
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            os.chmod(path, 0o700)  # noqa: PTH101
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)  # noqa: PTH108


def mounts_below(folder: Path, mountinfo: bytes) -> list[Path]:
    """Mount points at or below `folder`, deepest first; `mountinfo` in the form of proc(5), odd bytes in octal."""
    raw = [line.split()[4] for line in mountinfo.splitlines() if line]
    points = [Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), point))) for point in raw]
    return sorted((p for p in points if p.is_relative_to(folder)), key=lambda p: len(p.parts), reverse=True)


def unmount_below(folder: Path) -> bool:
    """Undo mounts that a killed job without a mount namespace has left. Returns whether none is left."""
    table = Path("/proc/self/mountinfo")
    if not table.exists():
        return True
    for point in mounts_below(folder.absolute(), table.read_bytes()):
        subprocess.run(
            ["umount", "--lazy", str(point)],
            env=process.environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return not mounts_below(folder.absolute(), table.read_bytes())
