"""The members of a wheel's zip file as its central directory describes them, and which of them are refused.

ZIP: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections 4.3 and 4.4).
"""

from __future__ import annotations

import stat
import zipfile

from slipway.wheel.paths import check_members
from slipway.wheel.refused import RefusedWheel

MAX_MEMBERS = 250_000
MAX_MEMBER = 16 << 30
MAX_TOTAL = 64 << 30
"""Limits in members and bytes. The biggest seen: 13,000 members and 0.8 GB in one wheel."""

RATIO_FROM = 64 << 20
MAX_RATIO = 200
"""Bytes from which the ratio plain : compressed counts, for a member and for a whole wheel. The highest seen in members
above 1 MB is 36 but for one library of 2 MB (224), and 10 in a whole wheel."""

SMALL = 1 << 20
"""Bytes, compressed and plain, up to which a member is read and inflated in one go."""

_LOCAL_SIZE = 30  # of a local header without name and extra field
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8 = 0x800
_FILE_KINDS = (0, stat.S_IFREG, stat.S_IFLNK)
_FOLDER_KINDS = (0, stat.S_IFDIR)


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
        return bool(self.size <= SMALL and self.compressed <= SMALL)

    @property
    def raw(self) -> bytes:
        """The name's bytes as they stand in the archive."""
        return self.name.encode("utf-8" if self.flags & _UTF8 else "cp437")


def members_of(infos: list[zipfile.ZipInfo], end: int, file_size: int, wheel: str) -> list[Member]:
    """The files among the records of a central directory that begins at `end`, sorted by name.

    Raises RefusedWheel for everything that no honest wheel does.
    """
    if len(infos) > MAX_MEMBERS:
        raise RefusedWheel(wheel, f"it has {len(infos)} members, at most {MAX_MEMBERS} are accepted")
    for info in infos:
        _check_info(info, wheel)
    names = [info.filename.removesuffix("/") for info in infos]
    check_members(names, wheel)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RefusedWheel(
            wheel, "it is there twice", member=twice, why="which one is installed depends on the installer"
        )
    total = sum(info.file_size for info in infos)
    if total > MAX_TOTAL or (total > RATIO_FROM and total > MAX_RATIO * file_size):
        raise RefusedWheel(wheel, f"it would unpack to {total} bytes from {file_size}: an absurd ratio")
    _check_overlap(infos, end, wheel)
    return sorted((Member(info) for info in infos if not info.is_dir()), key=lambda member: member.name)


def _check_overlap(infos: list[zipfile.ZipInfo], end: int, wheel: str) -> None:
    """Members share no bytes: overlapping ones are how a small archive unpacks to a huge one."""
    before = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        start = info.header_offset
        stop = start + _LOCAL_SIZE + len(info.orig_filename) + info.compress_size  # at least
        if start < before or stop > end:
            raise RefusedWheel(wheel, "it overlaps another member", member=info.filename)
        before = stop


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
