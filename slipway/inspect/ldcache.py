"""Reads /etc/ld.so.cache: which library name the dynamic loader finds where.

Format: glibc's sysdeps/generic/dl-cache.h, "glibc-ld.so.cache1.1"; systems before glibc 2.32 put an older table first.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0\0"
_HEADER = struct.Struct("<IIB3xI3I")
_ENTRY = struct.Struct("<iIIIQ")
_OLD_ENTRY_SIZE = 12


class CacheEntry(NamedTuple):
    """`name` is looked up, `path` is found. plain: for every processor, not for a glibc-hwcaps level only."""

    name: str
    path: str
    plain: bool


def parse(data: bytes) -> list[CacheEntry]:
    """All entries in the file's order. Raises ValueError for bytes that are no such cache."""
    start = 0
    if data.startswith(_OLD_MAGIC):
        (count,) = _unpack(struct.Struct("<I"), data, len(_OLD_MAGIC))
        start = len(_OLD_MAGIC) + 4 + count * _OLD_ENTRY_SIZE
        start += -start % 8
    if data[start : start + len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not start as a cache of glibc's loader")
    table = start + len(_MAGIC) + _HEADER.size
    count = _unpack(_HEADER, data, start + len(_MAGIC))[0]
    entries = []
    for number in range(count):
        _flags, name, path, _os_version, hwcap = _unpack(_ENTRY, data, table + number * _ENTRY.size)
        entries.append(CacheEntry(_string(data, start + name), _string(data, start + path), hwcap == 0))
    return entries


def _unpack(form: struct.Struct, data: bytes, offset: int) -> tuple[int, ...]:
    if offset + form.size > len(data):
        raise ValueError("it ends too early")
    return form.unpack_from(data, offset)


def _string(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise ValueError("it has a name without an end")
    return data[offset:end].decode("utf-8", "surrogateescape")
