"""Deterministic tar bytes: ustar headers, PAX records only where ustar can't say it.

Format: POSIX.1-2001 (pax), https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html. Python's tarfile
is not used to write, because its choices of header format belong to the Python version that runs it; the bytes
here belong to FORMAT alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, Kind

FORMAT = 1
"""Part of every layer key: raise it when the same entries would give other bytes."""

MTIME = 1_600_000_000
"""Seconds since 1970 of every member. Not 0: zip files can't hold dates before 1980, and pip builds some from trees."""

BLOCK = 512
_TYPES = {"file": b"0", "hardlink": b"1", "symlink": b"2", "directory": b"5", "whiteout": b"0"}
_USTAR_MAX_SIZE = 8**11 - 1
_USTAR_MAX_ID = 8**7 - 1
_ZEROS = bytes(BLOCK)
_PADDING = tuple(bytes(-size % BLOCK) for size in range(BLOCK))
_NOT_NORMAL = re.compile(r"^/|(^|/)\.{0,2}(/|\Z)")
_SUSPECTS = ("\0", "//", "/./", "/../", "/.\n", "/..\n", "/.wh.", "/\n", "\n/", "\n.", "\n\n")
_WHITEOUT = re.compile(r"(^|/)\.wh\.")


class Sink(Protocol):
    """Where tar bytes go."""

    def write(self, data: bytes, /) -> object: ...


def write_tar(entries: Iterable[Entry], sink: Sink) -> None:
    """Write `entries` as one tar: sorted by path, every parent directory present once (0755, root) before its content.

    Raises BuildFailed when two entries claim one path, when an entry lies below a file or symlink, or when a file's
    content is not as long as it said.
    """
    for entry in complete(entries):
        sink.write(header(entry))
        if entry.kind == "file" and entry.read is not None:
            written = 0
            for chunk in entry.read():
                sink.write(chunk)
                written += len(chunk)
            if written != entry.size:
                raise BuildFailed(
                    f"{entry.path} gave {written} bytes, {entry.size} were announced",
                    where=entry.origin or entry.path,
                    why="the tar would be unreadable from there on",
                )
            if tail := written % BLOCK:
                sink.write(_PADDING[tail])
    sink.write(_ZEROS * 2)


def complete(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries by path and add the parent directories that nobody listed."""
    by_path: dict[str, Entry] = {}
    entries = list(entries)
    _check_paths(entries)
    for entry in entries:
        if (other := by_path.setdefault(entry.path, entry)) is not entry:
            raise BuildFailed(
                f"{entry.path} comes twice",
                where=f"{other.origin or '?'} and {entry.origin or '?'}",
                why="a layer can hold a path once; which one wins would be left to the unpacker",
            )
    sound: set[str] = set()
    for path in list(by_path):
        parent = path.rpartition("/")[0]
        while parent and parent not in sound:
            known = by_path.get(parent)
            if known is None:
                by_path[parent] = Entry(parent, "directory", 0o755)
            elif known.kind != "directory":
                raise BuildFailed(
                    f"{path} lies below {parent}, which is a {known.kind}",
                    where=f"{by_path[path].origin or path} and {known.origin or parent}",
                    why="unpacking would write through it, or fail",
                )
            sound.add(parent)
            parent = parent.rpartition("/")[0]
    return [by_path[path] for path in sorted(by_path, key=_order)]


def _order(path: str) -> str:
    """Depth-first order, a directory directly before its content: by parts, so that "a/b" comes before "a-b"."""
    return path.replace("/", "\0")


def _check_paths(entries: list[Entry]) -> None:
    """`check_path` for all: one look at all names, and a closer one only where something may be wrong."""
    text = "\n" + "\n".join([entry.path for entry in entries]) + "\n"
    if any(suspect in text for suspect in _SUSPECTS):
        for entry in entries:
            check_path(entry.path, entry.origin, entry.kind)


def check_path(path: str, origin: str = "", kind: Kind = "file") -> None:
    """Refuse what could leave the image's root or delete lower layers' files. Raises BuildFailed."""
    if not path or "\0" in path or _NOT_NORMAL.search(path):
        raise BuildFailed(
            f"path {path!r} can't be a member of a layer",
            where=origin or None,
            why="it is empty, absolute, not normalised, or leads out of the tree",
        )
    if (".wh." in path and _WHITEOUT.search(path) is not None) != (kind == "whiteout"):
        raise BuildFailed(
            f"path {path!r} can't be a member of a layer",
            where=origin or None,
            why="names that begin with .wh. delete files of lower layers, and only whiteouts may do that",
        )


def header(entry: Entry) -> bytes:
    """All header blocks of one entry: a PAX extended header first where ustar's fields are too small."""
    name = entry.path + ("/" if entry.kind == "directory" else "")
    records: list[tuple[str, bytes]] = [(f"SCHILY.xattr.{key}", value) for key, value in entry.xattrs.items()]
    raw_name, raw_target = name.encode("utf-8", "surrogateescape"), entry.target.encode("utf-8", "surrogateescape")
    if len(raw_name) > 100 or not raw_name.isascii():
        records.append(("path", raw_name))
    if len(raw_target) > 100 or not raw_target.isascii():
        records.append(("linkpath", raw_target))
    size = entry.size if entry.kind == "file" else 0
    if size > _USTAR_MAX_SIZE:
        records.append(("size", str(size).encode()))
    if entry.uid > _USTAR_MAX_ID:
        records.append(("uid", str(entry.uid).encode()))
    if entry.gid > _USTAR_MAX_ID:
        records.append(("gid", str(entry.gid).encode()))
    own = _ustar(
        raw_name,
        entry.mode,
        entry.uid if entry.uid <= _USTAR_MAX_ID else 0,
        entry.gid if entry.gid <= _USTAR_MAX_ID else 0,
        size if size <= _USTAR_MAX_SIZE else 0,
        _TYPES[entry.kind],
        raw_target,
    )
    if not records:
        return own
    body = b"".join(_pax_record(key, value) for key, value in sorted(records))
    extended = _ustar(b"././@PaxHeader", 0o644, 0, 0, len(body), b"x", b"")
    return extended + body + _ZEROS[: -len(body) % BLOCK] + own


def _ustar(name: bytes, mode: int, uid: int, gid: int, size: int, kind: bytes, target: bytes) -> bytes:
    name = name[:100]
    fields = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (mode & 0o7777, uid, gid, size, MTIME)
    tail, tail_sum = _tail(kind, target[:100])
    checksum = sum(name) + sum(fields) + 8 * 0x20 + tail_sum
    return name.ljust(100, b"\0") + fields + b"%06o\0 " % checksum + tail


@functools.lru_cache(maxsize=256)
def _tail(kind: bytes, target: bytes) -> tuple[bytes, int]:
    """A header from the type flag on, and the sum of its bytes: the same for nearly all members."""
    tail = kind + target.ljust(100, b"\0") + b"ustar\x0000" + bytes(64) + b"0000000\x000000000\0" + bytes(167)
    return tail, sum(tail)


def _pax_record(key: str, value: bytes) -> bytes:
    """`LENGTH KEY=VALUE\\n`, where LENGTH counts itself."""
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest) + len(str(len(rest)))
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def iter_chunks(content: bytes, size: int = 1 << 20) -> Iterator[bytes]:
    """`content` in pieces of at most `size` bytes."""
    for start in range(0, len(content), size):
        yield content[start : start + size]
