"""Layers of plain files: what the image holds that comes from no package."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable
from pathlib import Path

from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, file_entry

EXECUTABLE, PLAIN = 0o755, 0o644


def tree(folder: Path) -> list[Entry]:
    """Entries of all files below `folder`, at their path relative to it.

    Of a file's mode only "may its owner execute it" counts, as in git: the rest follows the umask of the checkout.
    Raises BuildFailed for anything but regular files and symlinks.
    """
    entries = []
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        relative = path.relative_to(folder).as_posix()
        if stat.S_ISDIR(info.st_mode):
            continue
        if stat.S_ISLNK(info.st_mode):
            entries.append(Entry(relative, "symlink", 0o777, target=str(path.readlink()), origin=str(path)))
        elif stat.S_ISREG(info.st_mode):
            mode = EXECUTABLE if info.st_mode & stat.S_IXUSR else PLAIN
            entries.append(file_entry(relative, path.read_bytes(), mode=mode, origin=str(path)))
        else:
            raise BuildFailed("only files and symlinks can be copied into an image", where=path)
    return entries


def fingerprint(entries: Iterable[Entry]) -> dict[str, list[object]]:
    """What a layer key needs to know of small entries: path → kind, mode, target, sha256 of the content."""
    return {
        entry.path: [
            entry.kind,
            entry.mode,
            entry.target,
            hashlib.sha256(b"".join(entry.read())).hexdigest() if entry.read is not None else "",
        ]
        for entry in entries
    }
