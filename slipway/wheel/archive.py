"""A wheel as a zip file: its members checked first, then streamed in pieces.

zipfile reads the central directory, which is taken as the truth; each local header is held against it when its member
is read. Members are inflated with ISA-L, several times faster than zlib, and never past the size they announced.

ZIP: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections 4.3 and 4.4).
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from isal import isal_zlib

from slipway.wheel.member import Member, members_of
from slipway.wheel.refused import RefusedWheel

CHUNK = 1 << 19
"""Bytes of content that are in memory at once; half of a common core's L2 cache."""

_READ = 1 << 18
_EXTRA = 64  # bytes that are read for a local header's extra field

_Damaged: type[Exception] = getattr(isal_zlib, "IsalError")  # noqa: B009  # isal's stubs say it is an instance
_LOCAL = struct.Struct("<4s5H3L2H")
_STREAMED = 0x8  # sizes and CRC stand behind the data, zeros in the local header
_UNKNOWN = 0xFFFFFFFF  # the real size stands in a zip64 extra field


class Archive:
    """An open wheel. `members` are its files in the order of their names; directories are left out.

    label: the wheel's file name, for messages
    Raises RefusedWheel for everything that no honest wheel does. A context manager.
    """

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        try:
            with zipfile.ZipFile(path) as archive:
                infos = archive.infolist()
                end = archive.start_dir
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise RefusedWheel(label, f"it is not a whole zip file ({error})") from error
        self.members = members_of(infos, end, path.stat().st_size, label)
        self._by_name = {member.name: member for member in self.members}
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back. Nothing can be read after that."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def get(self, name: str) -> Member | None:
        """The member of that name."""
        return self._by_name.get(name)

    def read(self, member: Member, limit: int = 64 << 20) -> bytes:
        """The whole content of a small member. Raises RefusedWheel when it is above `limit` bytes."""
        if member.size > limit:
            raise self._refused(member, f"it has {member.size} bytes, at most {limit} are accepted here")
        return b"".join(self.chunks(member))

    def start(self, member: Member, count: int) -> bytes:
        """The first `count` bytes or a few more, unchecked."""
        for chunk in self._stream(member):
            if len(chunk) >= count:
                return chunk
        return b"".join(self._stream(member)) if member.size else b""

    def chunks(self, member: Member) -> Iterator[bytes]:
        """The content in pieces, of at most CHUNK bytes unless it is small.

        Raises RefusedWheel at the end when the size or the CRC is not the announced one.
        """
        if member.is_small:
            yield self.small(member)
        else:
            yield from self._big(member)

    def small(self, member: Member) -> bytes:
        """The whole content of a small member, with the same checks."""
        content = self._whole(member)
        self._compare(member, len(content), isal_zlib.crc32(content))
        return content

    def _big(self, member: Member) -> Iterator[bytes]:
        crc = size = 0
        for chunk in self._stream(member):
            crc = isal_zlib.crc32(chunk, crc)
            size += len(chunk)
            if size > member.size:
                break
            yield chunk
        self._compare(member, size, crc)

    def _compare(self, member: Member, size: int, crc: int) -> None:
        if size != member.size:
            more = "more than" if size > member.size else f"{size} bytes instead of"
            raise self._refused(member, f"it holds {more} the {member.size} bytes that the archive announces")
        if crc != member.crc:
            raise self._refused(member, f"its CRC is {crc:08x}, the archive says {member.crc:08x}")

    def _whole(self, member: Member) -> bytes:
        """A small member's content, at most one byte more than announced, with one read of the file where possible."""
        name = member.raw
        start = _LOCAL.size + len(name)
        head = os.pread(self._descriptor, start + _EXTRA + member.compressed, member.offset)
        start += self._check_local(member, head, name)
        raw = head[start : start + member.compressed]
        if len(raw) < member.compressed:
            raw = os.pread(self._descriptor, member.compressed, member.offset + start)
        if not member.deflated:
            return raw
        try:
            return isal_zlib.decompressobj(-isal_zlib.MAX_WBITS).decompress(raw, member.size + 1)
        except _Damaged as error:
            raise self._refused(member, f"its data is damaged ({error})") from error

    def _stream(self, member: Member) -> Iterator[bytes]:
        """Content as it comes, hardly more than announced; sizes and CRC are the caller's to check."""
        if member.is_small:
            yield self._whole(member)
            return
        name = member.raw
        head = os.pread(self._descriptor, _LOCAL.size + len(name), member.offset)
        offset = member.offset + len(head) + self._check_local(member, head, name)
        if member.deflated:
            yield from self._inflate(member, offset)
            return
        left = member.compressed
        while left:
            chunk = self._pread(member, min(CHUNK, left), offset)
            offset += len(chunk)
            left -= len(chunk)
            yield chunk

    def _inflate(self, member: Member, offset: int) -> Iterator[bytes]:
        inflater = isal_zlib.decompressobj(-isal_zlib.MAX_WBITS)
        left = member.compressed
        produced = 0
        try:
            while left and produced <= member.size and not inflater.eof:
                raw = self._pread(member, min(_READ, left), offset)
                offset += len(raw)
                left -= len(raw)
                while raw and produced <= member.size:
                    if chunk := inflater.decompress(raw, CHUNK):
                        produced += len(chunk)
                        yield chunk
                    raw = inflater.unconsumed_tail
            while produced <= member.size and not inflater.eof and (chunk := inflater.decompress(b"", CHUNK)):
                produced += len(chunk)
                yield chunk
        except _Damaged as error:
            raise self._refused(member, f"its data is damaged ({error})") from error

    def _pread(self, member: Member, count: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, count, offset)
        if not data:
            raise self._refused(member, "the archive ends within it")
        return data

    def _check_local(self, member: Member, head: bytes, name: bytes) -> int:
        """Hold a local header against the central directory. Returns the length of its extra field."""
        if len(head) < _LOCAL.size:
            raise self._refused(member, "the archive ends within its header")
        magic, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = _LOCAL.unpack_from(head)
        named = name_length == len(name) and head.startswith(name, _LOCAL.size)
        method_there = 8 if member.deflated else 0
        if (magic, flags, method, crc, compressed, size, named) == (
            *(b"PK\3\4", member.flags, method_there, member.crc, member.compressed, member.size, True),
        ):
            return int(extra_length)
        streamed = bool(flags & _STREAMED)
        wrong = [
            what
            for what, agrees in (
                ("signature", magic == b"PK\3\4"),
                ("flags", flags == member.flags),
                ("compression", method == method_there),
                ("name", named),
                ("CRC", crc == member.crc or (streamed and crc == 0)),
                ("size", size in (member.size, _UNKNOWN) or (streamed and size == 0)),
                ("compressed size", compressed in (member.compressed, _UNKNOWN) or (streamed and compressed == 0)),
            )
            if not agrees
        ]
        if wrong:
            raise self._refused(
                member,
                f"its local header contradicts the central directory ({', '.join(wrong)})",
                "different programs would see different files in this wheel",
            )
        return int(extra_length)

    def _refused(self, member: Member, what: str, why: str | None = None) -> RefusedWheel:
        return RefusedWheel(self.label, what, member=member.name, why=why)
