"""Stamps: what a file looked like when its bytes were last hashed, so that a build that changes nothing need not hash.

A stamp lies at `<root>/stamps/ab/<hex>` and holds one line, `size mtime_ns ctime_ns inode`. ctime is in it because
it moves on every write and can't be set back: a file that was changed with its size and mtime kept is noticed. Its
own mtime says when the artifact was last wanted, to within a day.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from slipway.host.replace import write_whole

USE_GRAIN = 86_400
"""Seconds: how exactly the time of last use is kept; a write per file and day, not per build."""


def looks(path: Path) -> str | None:
    """The line a stamp would hold for this file now; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def write(stamp: Path, path: Path) -> None:
    """Record that `path` was hashed and found right. A store that can't be written goes without: it is hashed again."""
    line = looks(path)
    with contextlib.suppress(OSError):
        stamp.parent.mkdir(parents=True, exist_ok=True)
        write_whole(stamp, f"{line}\n".encode("ascii"))


def holds(stamp: Path, path: Path) -> bool:
    """Whether `path` still looks as it did when it was hashed."""
    try:
        return stamp.read_text("ascii").rstrip("\n") == looks(path)
    except (OSError, ValueError):
        return False


def used(stamp: Path) -> None:
    """Note that the artifact was wanted now."""
    try:
        if time.time() - stamp.stat().st_mtime > USE_GRAIN:
            os.utime(stamp)
    except OSError:
        pass


def last_use(stamp: Path, path: Path) -> float:
    """Seconds since 1970 when the artifact was last wanted."""
    for candidate in (stamp, path):
        try:
            return candidate.stat().st_mtime
        except OSError:
            continue
    return 0.0
