"""What libfabric will provide, before it is compiled or unpacked.

From source: its version script (libfabric.map.in) lists every symbol version, Makefile.am the number in the soname
(libtool's `-version-info CURRENT:REVISION:AGE`, soname CURRENT - AGE). From the EFA installer: the packages themselves.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from slipway.ahead import contents
from slipway.ahead.contents import Contents
from slipway.debian.rootfs import Spool
from slipway.errors import WrongArtifact
from slipway.fabric import installer
from slipway.fabric.layer import LOADER, PREFIX, STUBS, has_stubs, recipe
from slipway.inspect.elf import SHARED, Elf
from slipway.inspect.index import Member
from slipway.layers.entry import Entry
from slipway.lock.model import EfaInstaller, PoolFile
from slipway.pins.model import Selection

_MAP, _MAKEFILE = "libfabric.map.in", "Makefile.am"
_VERSION = re.compile(r"^(\w+_[0-9.]+)\s*\{", re.MULTILINE)
_SONAME = re.compile(r"^src_libfabric_la_LDFLAGS\s*\+?=\s*-version-info\s+(\d+):\d+:(\d+)", re.MULTILINE)


def from_source(source: PoolFile, tarball: Path, selection: Selection) -> Contents:
    """The library that the source makes, and the stand-ins for CUDA that are compiled with it."""
    texts = _source_texts(tarball)
    versions = tuple(_VERSION.findall(texts.get(_MAP, "")))
    number = _SONAME.search(texts.get(_MAKEFILE, ""))
    if not versions or number is None:
        raise WrongArtifact(
            "the source of libfabric does not say which symbol versions it makes",
            where=source.label,
            why=f"{_MAP} or {_MAKEFILE} are not as they were in 2.1.0",
        )
    soname = f"libfabric.so.{int(number[1]) - int(number[2])}"
    owner = f"source {source.name} {source.version}"
    members = [_made(f"{PREFIX}/lib/{soname}", selection, versions, source.sha256, owner)]
    if has_stubs(selection):
        members += _stubs(selection)
    return _with_loader(members)


def from_installer(pin: EfaInstaller, tarball: Path, selection: Selection) -> Contents:
    """What is taken of the installer's packages. Raises what slipway.fabric.installer.read raises."""
    with tempfile.TemporaryFile() as spool:
        entries = installer.finished(installer.read(tarball, selection, Spool(spool)), pin, selection)
        members = [member for entry in entries if (member := _member(entry)) is not None]
        texts = {entry.path: b"".join(entry.read()) for entry in entries if entry.read and _is_loader(entry.path)}
    return Contents((*members, *_files(texts)), texts)


def versions(found: Iterable[Member], soname: str) -> tuple[str, ...]:
    """The symbol versions of the library that has this soname, () where none has."""
    return next((each.elf.defines for each in found if each.elf and each.elf.soname == soname), ())


def _source_texts(tarball: Path) -> dict[str, str]:
    """The two files, from the top folder of the tarball."""
    found = {}
    with tarfile.open(tarball, "r|*") as tar:
        for each in tar:
            top, _, name = each.name.partition("/")
            if top and name in (_MAP, _MAKEFILE) and (file := tar.extractfile(each)) is not None:
                found[name] = file.read().decode("utf-8", "replace")
            if len(found) == 2:
                break
    return found


def _made(path: str, selection: Selection, versions: tuple[str, ...], sha256: str, owner: str) -> Member:
    soname = path.rpartition("/")[2]
    facts = Elf(SHARED, selection.arch, 64, True, soname=soname, defines=versions, dynamic=True)
    return Member(path, "file", 0o755, sha256=sha256, owner=owner, elf=facts)


def _stubs(selection: Selection) -> Iterator[Member]:
    """A stub's first line names its file (docker/libfabric/build.sh); the runtime's has that as its symbol version."""
    for name, path in recipe(selection).items():
        if name.startswith("stubs/") and (match := re.match(r"/\* ([^ :]*):", path.read_text())):
            defines = (match[1],) if match[1].startswith("libcudart.") else ()
            yield _made(f"{STUBS}/{match[1]}", selection, defines, match[1], "files CUDA stand-ins")


def _with_loader(members: list[Member]) -> Contents:
    """ld.so's settings for the folders that have libraries, as the layer has them."""
    folders = {member.path.rpartition("/")[0] for member in members}
    texts = {config: f"/{folder}\n".encode() for folder, config in LOADER.items() if folder in folders}
    return Contents((*members, *_files(texts)), texts)


def _member(entry: Entry) -> Member | None:
    owner = f"installer {entry.origin}"
    if entry.kind == "symlink":
        return contents.link(entry.path, entry.target, owner)
    return contents.member(entry.path, entry.size, entry.read(), owner) if entry.read else None


def _is_loader(path: str) -> bool:
    return path.startswith("etc/ld.so.conf")


def _files(texts: Iterable[str]) -> list[Member]:
    return [Member(path, "file") for path in texts]
