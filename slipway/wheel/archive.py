"""A wheel as a zip file: its members checked first, then streamed in pieces.

zipfile reads the central directory, which is taken as the truth; each local header is held against it when its member
is read. Members are inflated with ISA-L, several times faster than zlib, and never past the size they announced.

ZIP: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections 4.3 and 4.4).
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from isal import isal_zlib

from slipway.wheel.paths import check_members
from slipway.wheel.refused import RefusedWheel

CHUNK = 1 << 19
"""Bytes of content that are in memory at once; half of a common core's L2 cache."""

_READ = 1 << 18
_SMALL = 1 << 20  # compressed and plain; smaller members are read and inflated in one go
_EXTRA = 64  # bytes that are read for a local header's extra field

MAX_MEMBERS = 250_000
MAX_MEMBER = 16 << 30
MAX_TOTAL = 64 << 30
"""Limits in members and bytes. The biggest seen: 13,000 members and 0.8 GB in one wheel."""

RATIO_FROM = 64 << 20
MAX_RATIO = 200
"""Bytes from which the ratio plain : compressed counts, for a member and for a whole wheel. The highest seen in members
above 1 MB is 36 but for one library of 2 MB (224), and 10 in a whole wheel."""

_Damaged: type[Exception] = getattr(isal_zlib, "IsalError")  # noqa: B009  # isal's stubs say it is an instance
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_STREAMED = 0x8  # sizes and CRC stand behind the data, zeros in the local header
_UTF8 = 0x800
_FILE_KINDS = (0, stat.S_IFREG, stat.S_IFLNK)
_FOLDER_KINDS = (0, stat.S_IFDIR)
_UNKNOWN = 0xFFFFFFFF  # the real size stands in a zip64 extra field


class Member:
    """One file of the archive, as the central directory describes it. Sizes in bytes."""

    __slots__ = ("compressed", "crc", "deflated", "executable", "flags", "link", "name", "offset", "size")

    def __init__(self, info: zipfile.ZipInfo) -> None:
        kind = stat.S_IFMT(info.external_attr >> 16)
        self.name = info.filename
        self.size = info.file_size
        self.compressed = info.compress_size
        self.deflated = info.compress_type == zipfile.ZIP_DEFLATED
        self.crc = info.CRC
        self.flags = info.flag_bits
        self.offset = info.header_offset
        self.link = kind == stat.S_IFLNK
        self.executable = kind in (0, stat.S_IFREG) and bool(info.external_attr >> 16 & 0o111)

    @property
    def is_small(self) -> bool:
        """Whether it is read and inflated in one go."""
        return bool(self.size <= _SMALL and self.compressed <= _SMALL)

    @property
    def raw(self) -> bytes:
        """The name's bytes as they stand in the archive."""
        return self.name.encode("utf-8" if self.flags & _UTF8 else "cp437")


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
        if len(infos) > MAX_MEMBERS:
            raise RefusedWheel(label, f"it has {len(infos)} members, at most {MAX_MEMBERS} are accepted")
        self.members = self._check(infos, end, path.stat().st_size)
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

    def _check(self, infos: list[zipfile.ZipInfo], end: int, file_size: int) -> list[Member]:
        for info in infos:
            _check_info(info, self.label)
        names = [info.filename.removesuffix("/") for info in infos]
        if names:
            check_members(names, self.label)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise RefusedWheel(
                self.label, "it is there twice", member=twice, why="which one is installed depends on the installer"
            )
        total = sum(info.file_size for info in infos)
        if total > MAX_TOTAL or (total > RATIO_FROM and total > MAX_RATIO * file_size):
            raise RefusedWheel(self.label, f"it would unpack to {total} bytes from {file_size}: an absurd ratio")
        self._check_overlap(infos, end)
        members = [Member(info) for info in infos if not info.is_dir()]
        members.sort(key=lambda member: member.name)
        return members

    def _check_overlap(self, infos: list[zipfile.ZipInfo], end: int) -> None:
        """Members share no bytes: overlapping ones are how a small archive unpacks to a huge one."""
        before = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            start = info.header_offset
            stop = start + _LOCAL.size + len(info.orig_filename) + info.compress_size  # at least
            if start < before or stop > end:
                raise RefusedWheel(self.label, "it overlaps another member", member=info.filename)
            before = stop

    def _refused(self, member: Member, what: str, why: str | None = None) -> RefusedWheel:
        return RefusedWheel(self.label, what, member=member.name, why=why)


def _check_info(info: zipfile.ZipInfo, wheel: str) -> None:
    """Raise RefusedWheel for a member of a kind, size or ratio that has no place in a wheel."""
    attributes = info.external_attr >> 16
    directory = info.filename[-1:] == "/"
    ok = (
        info.orig_filename == info.filename
        and not info.flag_bits & _ENCRYPTED
        and info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        and (info.compress_type == zipfile.ZIP_DEFLATED or info.compress_size == info.file_size)
        and not (directory and info.file_size)
        and info.file_size <= MAX_MEMBER
        and (info.file_size <= RATIO_FROM or info.file_size <= MAX_RATIO * info.compress_size)
        and stat.S_IFMT(attributes) in (_FOLDER_KINDS if directory else _FILE_KINDS)
    )
    if ok:
        return
    why: str | None = None
    if info.orig_filename != info.filename:
        what, why = "its name holds a NUL byte", "what follows the NUL is hidden from some programs"
    elif info.flag_bits & _ENCRYPTED:
        what = "it is encrypted"
    elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        what = f"compression method {info.compress_type} is not supported"
        why = "wheels are stored or deflated"
    elif directory and info.file_size:
        what = "it is a directory with content"
    elif info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        what = "it is stored, but its two sizes differ"
    elif info.file_size > MAX_MEMBER:
        what = f"it has {info.file_size} bytes, at most {MAX_MEMBER} are accepted"
    elif info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * info.compress_size:
        what = f"it would unpack to {info.file_size} bytes from {info.compress_size}: an absurd ratio"
        why = "it would fill the disk of every node that pulls the image"
    else:
        what = f"it is of file type {stat.S_IFMT(attributes):o} (octal), no file, directory or symlink"
    raise RefusedWheel(wheel, what, member=info.orig_filename, why=why)
