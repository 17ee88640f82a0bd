"""Reads a layer's tar in a stream: members in order, contents in chunks, nothing unpacked.

Formats: ustar and pax (https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html) and GNU tar's long names
and big numbers, because layers of other people's base images hold them. Python's tarfile needs four times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from slipway.errors import WrongArtifact

BLOCK = 512
CHUNK = 1 << 20
Kind = Literal["file", "directory", "symlink", "hardlink", "device", "fifo"]

_KINDS: dict[bytes, Kind] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "hardlink",
    b"2": "symlink",
    b"3": "device",
    b"4": "device",
    b"5": "directory",
    b"6": "fifo",
}
_MAX_EXTENDED = 16 << 20
_ZERO_BLOCK = bytes(BLOCK)


class Source(Protocol):
    """Uncompressed tar bytes; `read(n)` gives at most n bytes, none at the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TarMember:
    """One member as its headers say it.

    path:   relative, "" for the image's root, without "." parts
    target: where a symlink points, as written; for a hard link the path it shares
    size:   bytes of content that follow
    """

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    size: int
    target: str = ""
    xattrs: dict[str, bytes] = field(default_factory=dict)


class TarReader:
    """Iterate to get members; `content()` gives the current member's bytes, once."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name
        self._left = 0
        self._padding = 0
        self._buffer = b""
        self._at = 0

    def __iter__(self) -> Iterator[TarMember]:
        extended: dict[str, bytes] = {}
        while True:
            for _ in self.content():
                pass
            self._skip_padding()
            block = self._take(BLOCK)
            if not block or block == _ZERO_BLOCK:
                return
            if len(block) < BLOCK:
                raise self._damaged("it ends in the middle of a header")
            kind, size = block[156:157], _number(block[124:136])
            if size < 0 or _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * 0x20:
                raise self._damaged("a header's checksum does not fit")
            if kind in b"xgLK":
                extended |= self._extended(kind, size)
                continue
            yield self._member(block, kind, size, extended)
            extended = {}

    def content(self) -> Iterator[bytes]:
        """The current member's bytes that were not taken yet."""
        while self._left:
            chunk = self._take(min(self._left, CHUNK))
            if not chunk:
                raise self._damaged("it ends in the middle of a file")
            self._left -= len(chunk)
            yield chunk

    def _take(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only for content that is read piece by piece, or at the end."""
        have = len(self._buffer) - self._at
        if not have:
            self._buffer, self._at = self._source.read(CHUNK), 0
            have = len(self._buffer)
        if have < size <= BLOCK:
            self._buffer, self._at = self._buffer[self._at :] + self._source.read(CHUNK), 0
            while len(self._buffer) < size and (more := self._source.read(CHUNK)):
                self._buffer += more
        start, self._at = self._at, min(self._at + size, len(self._buffer))
        return self._buffer[start : self._at]

    def _skip_padding(self) -> None:
        if self._padding and len(self._take(self._padding)) < self._padding:
            raise self._damaged("it ends in the middle of a file")
        self._padding = 0

    def _damaged(self, what: str) -> WrongArtifact:
        return WrongArtifact(
            "a layer is no readable tar", where=self._name, why=what, remedy="build or download the image again"
        )

    def _extended(self, kind: bytes, size: int) -> dict[str, bytes]:
        """The records of a pax header, or GNU's long name as the record that says the same."""
        if size > _MAX_EXTENDED:
            raise self._damaged(f"an extended header announces {size} bytes")
        self._left, self._padding = size, -size % BLOCK
        body = b"".join(self.content())
        self._skip_padding()
        if kind == b"L":
            return {"path": body.rstrip(b"\0")}
        if kind == b"K":
            return {"linkpath": body.rstrip(b"\0")}
        records: dict[str, bytes] = {}
        while body:
            digits, _, _rest = body.partition(b" ")
            length = int(digits) if digits.isdigit() else 0
            key, equals, value = body[len(digits) + 1 : length].partition(b"=")
            if not equals or not value.endswith(b"\n"):
                raise self._damaged("a pax record is malformed")
            records[key.decode("utf-8", "surrogateescape")] = value[:-1]
            body = body[length:]
        # A global header's path or size would hold for all members; no tool writes such, a comment is usual.
        return {} if kind == b"g" else records

    def _member(self, block: bytes, kind: bytes, size: int, extended: dict[str, bytes]) -> TarMember:
        if kind not in _KINDS:
            raise self._damaged(f"a member has type {kind!r}")
        if any(key.startswith("GNU.sparse.") for key in extended):
            raise self._damaged("a member is stored as a sparse file, which an OCI layer must not hold")
        name, target = _field(block[:100]), _field(block[157:257])
        if block[257:263] == b"ustar\0" and (prefix := _field(block[345:500])):
            name = prefix + b"/" + name
        raw = extended.get("path", name)
        if kind in (b"0", b"\0") and raw.endswith(b"/"):
            kind = b"5"
        what = _KINDS[kind]
        size = self._decimal(extended, "size", size)
        self._left = size if what == "file" else 0
        self._padding = -self._left % BLOCK
        link = extended.get("linkpath", target)
        return TarMember(
            self._path(raw),
            what,
            _number(block[100:108]) & 0o7777,
            self._decimal(extended, "uid", _number(block[108:116])),
            self._decimal(extended, "gid", _number(block[116:124])),
            self._left,
            self._path(link) if what == "hardlink" else _text(link) if what == "symlink" else "",
            {key[13:]: value for key, value in extended.items() if key.startswith("SCHILY.xattr.")},
        )

    def _decimal(self, extended: dict[str, bytes], key: str, default: int) -> int:
        if key not in extended:
            return default
        if not extended[key].isdigit() or len(extended[key]) > 20:
            raise self._damaged(f"a pax record says {key}={extended[key][:40]!r}")
        return int(extended[key])

    def _path(self, raw: bytes) -> str:
        text = _text(raw)
        if text.isascii() and "//" not in text and "./" not in text and text[:1] != "/" and text[-1:] not in ("/", "."):
            return text
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in text:
            raise self._damaged(f"a member is called {text!r}, which leads out of the image")
        return "/".join(parts)


def _field(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _number(raw: bytes) -> int:
    """An octal field, or GNU's base-256 (first bit set). -1 for what is neither."""
    if raw[0] & 0x80:
        return int.from_bytes(raw, "big") & ((1 << (8 * len(raw) - 1)) - 1)
    digits = raw.strip(b" \0")
    if not digits:
        return 0
    try:
        return int(digits, 8)
    except ValueError:
        return -1
