"""What goes into a layer: entries, before they become tar bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["file", "directory", "symlink", "hardlink", "whiteout"]
Opener = Callable[[], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a layer.

    path: relative to the image's root, POSIX separators, no leading "/" and no "." or ".." part
    mode: permission bits (0 to 0o7777)
    size: bytes of content, for files
    read: gives the content in chunks, each call from the start; exactly `size` bytes
    target: where a symlink points (as written) or which path a hard link shares
    origin: who brought it (wheel, package), for messages

    A whiteout deletes a path of lower layers: its own path is the one deleted with ".wh." before its last part
    (OCI image spec, layer.md). Only an entry of that kind may have such a name.
    """

    path: str
    kind: Kind = "file"
    mode: int = 0o644
    size: int = 0
    read: Opener | None = None
    target: str = ""
    uid: int = 0
    gid: int = 0
    xattrs: Mapping[str, bytes] = field(default_factory=dict)
    origin: str = ""


def file_entry(path: str, content: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0, origin: str = "") -> Entry:
    """An entry whose content is at hand."""
    return Entry(path, "file", mode, len(content), lambda: iter((content,)), uid=uid, gid=gid, origin=origin)
