"""What the dynamic loader reads of an ELF file: headers, the dynamic section, symbol versions, build id.

Formats: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html and, for symbol versions,
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html. Sections are not
looked at: the loader doesn't either, and stripped files may have none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

MAGIC = b"\x7fELF"
Buffer = bytes | bytearray | mmap

RELOCATABLE, EXECUTABLE, SHARED = 1, 2, 3
"""Values of e_type."""

MACHINES = {3: "i386", 40: "arm", 62: "amd64", 183: "arm64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
"""e_machine of processors, by Debian's names where there is one."""

DEVICE_MACHINES = {190: "cuda", 224: "amdgpu", 247: "bpf"}
"""e_machine of code that the host's processor never runs."""

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_DT_FLAGS_1, _DT_VERDEF, _DT_VERDEFNUM, _DT_VERNEED, _DT_VERNEEDNUM = (
    0x6FFFFFFB,
    0x6FFFFFFC,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)
_DF_1_NODEFLIB = 0x800
_VER_FLG_BASE, _VER_FLG_WEAK = 1, 2
_MAX_STRING = 1 << 16
_MAX_COUNT = 1 << 16


class ElfError(ValueError):
    """The bytes start like an ELF file but contradict themselves, or end too early. The message names the file."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name
        self.what = what


class Elf(NamedTuple):
    """Facts of one ELF file.

    kind:       e_type (RELOCATABLE, EXECUTABLE, SHARED, or another number)
    machine:    name from MACHINES or DEVICE_MACHINES, "machine-N" for others
    bits:       32 or 64
    little:     whether it is little-endian
    needs:      version references: (library's file name, version names it must define)
    defines:    version names this file defines, without the base version
    build_id:   hex, "" without one
    no_default: linked with -z nodefaultlib: the loader's default folders are not searched
    """

    kind: int
    machine: str
    bits: int
    little: bool
    interpreter: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    defines: tuple[str, ...] = ()
    build_id: str = ""
    no_default: bool = False
    dynamic: bool = False

    @property
    def for_host(self) -> bool:
        """Whether a processor runs it (and not a GPU or the kernel's virtual machine)."""
        return self.machine not in DEVICE_MACHINES.values()


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def parse(data: Buffer, name: str) -> Elf:
    """Read the facts of the ELF file in `data`; `name` stands in messages. Raises ElfError."""
    return _Reader(data, name).read()


class _Reader:
    def __init__(self, data: Buffer, name: str) -> None:
        self.data = data
        self.size = len(data)
        self.name = name
        self.order = "<"
        self.wide = True
        self.segments: list[_Segment] = []
        self.strings = (0, 0)

    def read(self) -> Elf:
        ident = self.bytes_at(0, 16, "identification")
        if ident[:4] != MAGIC:
            raise self.error("it does not start with ELF's magic number")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise self.error(f"class {ident[4]} and byte order {ident[5]} are none that ELF knows")
        self.wide, self.order = ident[4] == 2, "<" if ident[5] == 1 else ">"
        kind, machine, _version, _entry, phoff, _shoff, _flags, _ehsize, phentsize, phnum = self.unpack(
            "HHIQQQIHHH" if self.wide else "HHIIIIIHHH", 16, "file header"
        )
        elf = Elf(
            kind,
            MACHINES.get(machine) or DEVICE_MACHINES.get(machine) or f"machine-{machine}",
            64 if self.wide else 32,
            self.order == "<",
        )
        self.segments = list(self.program_headers(phoff, phentsize, phnum))
        if not elf.for_host:
            return elf
        for segment in self.segments:
            if segment.kind in (_PT_LOAD, _PT_DYNAMIC) and segment.offset + segment.size > self.size:
                raise self.error(f"a segment ends at byte {segment.offset + segment.size}, the file at {self.size}")
        elf = elf._replace(interpreter=self.interpreter(), build_id=self.build_id())
        dynamic = next((s for s in self.segments if s.kind == _PT_DYNAMIC and s.size), None)
        return self.dynamic(elf, dynamic) if dynamic else elf

    def error(self, what: str) -> ElfError:
        return ElfError(self.name, what)

    def bytes_at(self, offset: int, size: int, what: str) -> bytes:
        if offset + size > self.size:
            raise self.error(f"its {what} should lie at bytes {offset} to {offset + size}, it ends at {self.size}")
        return bytes(self.data[offset : offset + size])

    def unpack(self, form: str, offset: int, what: str) -> tuple[int, ...]:
        form = self.order + form
        return struct.unpack(form, self.bytes_at(offset, struct.calcsize(form), what))

    def program_headers(self, offset: int, entry_size: int, count: int) -> Iterator[_Segment]:
        if count and entry_size < (56 if self.wide else 32):
            raise self.error(f"its program headers are {entry_size} bytes each, too few")
        for number in range(count):
            at = offset + number * entry_size
            if self.wide:
                kind, _flags, start, address, _physical, size = self.unpack("IIQQQQ", at, "program headers")
            else:
                kind, start, address, _physical, size = self.unpack("IIIII", at, "program headers")
            yield _Segment(kind, start, address, size)

    def offset_of(self, address: int, what: str) -> int:
        """Where in the file the byte lies that is loaded at `address`."""
        for segment in self.segments:
            if segment.kind == _PT_LOAD and segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise self.error(f"its {what} lie at address {address:#x}, which no segment of the file holds")

    def interpreter(self) -> str:
        segment = next((s for s in self.segments if s.kind == _PT_INTERP), None)
        if segment is None:
            return ""
        if segment.size > _MAX_STRING:
            raise self.error("its interpreter's name is absurdly long")
        return _text(self.bytes_at(segment.offset, segment.size, "interpreter's name").partition(b"\0")[0])

    def build_id(self) -> str:
        for segment in self.segments:
            if segment.kind != _PT_NOTE or segment.offset + segment.size > self.size:
                continue
            at, end = segment.offset, segment.offset + segment.size
            while at + 12 <= end:
                name_size, size, kind = self.unpack("III", at, "notes")
                name_at, value_at = at + 12, at + 12 + (name_size + 3 & ~3)
                at = value_at + (size + 3 & ~3)
                if at > end:
                    break
                if kind == 3 and bytes(self.data[name_at : name_at + name_size]) == b"GNU\0":
                    return bytes(self.data[value_at : value_at + size]).hex()
        return ""

    def dynamic(self, elf: Elf, segment: _Segment) -> Elf:
        form, step = ("qQ", 16) if self.wide else ("iI", 8)
        tags: dict[int, int] = {}
        needed: list[int] = []
        table = self.bytes_at(segment.offset, segment.size - segment.size % step, "dynamic section")
        for tag, value in struct.iter_unpack(self.order + form, table):
            if tag == 0:
                break
            if tag == _DT_NEEDED:
                needed.append(value)
            else:
                tags[tag] = value
        if _DT_STRTAB in tags:
            start = self.offset_of(tags[_DT_STRTAB], "strings")
            self.strings = (start, min(start + tags.get(_DT_STRSZ, 0), self.size))
        return elf._replace(
            dynamic=True,
            soname=self.string(tags[_DT_SONAME]) if _DT_SONAME in tags else "",
            needed=tuple(self.string(offset) for offset in needed),
            rpath=self.folders(tags.get(_DT_RPATH)),
            runpath=self.folders(tags.get(_DT_RUNPATH)),
            needs=tuple(self.version_needs(tags)),
            defines=tuple(self.version_definitions(tags)),
            no_default=bool(tags.get(_DT_FLAGS_1, 0) & _DF_1_NODEFLIB),
        )

    def string(self, offset: int) -> str:
        start, end = self.strings
        if not 0 <= offset < end - start:
            raise self.error(f"it refers to byte {offset} of its strings, which have {max(end - start, 0)}")
        stop = self.data.find(b"\0", start + offset, min(end, start + offset + _MAX_STRING))
        if stop < 0:
            raise self.error(f"the string at byte {offset} of its strings has no end")
        return _text(bytes(self.data[start + offset : stop]))

    def folders(self, offset: int | None) -> tuple[str, ...]:
        """As glibc: an empty list is none, an empty entry between colons is the working directory."""
        text = "" if offset is None else self.string(offset)
        return tuple(text.split(":")) if text else ()

    def version_needs(self, tags: dict[int, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
        if _DT_VERNEED not in tags:
            return
        at = self.offset_of(tags[_DT_VERNEED], "version references")
        for _ in range(min(tags.get(_DT_VERNEEDNUM, 0), _MAX_COUNT)):
            _version, count, file, first, following = self.unpack("HHIII", at, "version references")
            names = []
            inner = at + first
            for _ in range(count):
                _hash, flags, _other, name, more = self.unpack("IHHII", inner, "version references")
                if not flags & _VER_FLG_WEAK:
                    names.append(self.string(name))
                if not more:
                    break
                inner += more
            yield self.string(file), tuple(names)
            if not following:
                return
            at += following

    def version_definitions(self, tags: dict[int, int]) -> Iterator[str]:
        if _DT_VERDEF not in tags:
            return
        at = self.offset_of(tags[_DT_VERDEF], "version definitions")
        for _ in range(min(tags.get(_DT_VERDEFNUM, 0), _MAX_COUNT)):
            _version, flags, _index, count, _hash, first, following = self.unpack("HHHHIII", at, "version definitions")
            if count and not flags & _VER_FLG_BASE:
                name, _more = self.unpack("II", at + first, "version definitions")
                yield self.string(name)
            if not following:
                return
            at += following


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
