"""What the dynamic loader would see of a wheel or a .deb, without a layer: ELF files, links to libraries, ld.so.conf.

Every file is read once; what was found is kept beside the layer cache, by the artifact's sha256:

    <cache>/ahead/ab/<sha256>.<8 digits>.json

The 8 digits stand for this code, what reads ELF files, and the venv that a wheel is installed into.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from slipway.debian.deb import open_tar
from slipway.host.replace import write_whole
from slipway.inspect import content, elf, index
from slipway.inspect.index import Member, member_of
from slipway.lock.model import Artifact, Deb, Wheel
from slipway.wheel.content import OpenWheel
from slipway.wheel.index import paused_gc
from slipway.wheel.paths import Venv

_TEXTS = (".py", ".pyi", ".h", ".hpp", ".cuh", ".json", ".txt", ".md")
"""Endings of the many small files of wheels that are not looked into."""


class Contents(NamedTuple):
    """members: ELF files and links; texts: ld.so's settings, by path."""

    members: tuple[Member, ...]
    texts: dict[str, bytes]


def kept(artifact: Artifact, venv: Venv, cache: Path) -> Contents | None:
    """What was found before, None where that is not kept."""
    try:
        return _load(json.loads(_file(artifact, venv, cache).read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read(
    artifact: Artifact, path: Path, venv: Venv, cache: Path, excuse: str | None, report: Callable[[int], None]
) -> Contents:
    """Read a wheel or .deb and keep what was found where that can be written (a worker of slipway.layers.pool).

    excuse: why the wheel may contradict its RECORD. Raises what OpenWheel and open_tar raise.
    """
    found = _wheel(artifact, path, venv, excuse) if isinstance(artifact, Wheel) else _deb(artifact, path)
    target = _file(artifact, venv, cache)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, json.dumps(_dump(found)).encode())
    except OSError:
        pass  # a cache that can't be written costs time, nothing else
    report(artifact.size)
    return found


def member(path: str, size: int, chunks: Iterator[bytes], owner: str) -> Member | None:
    """The member that an ELF file makes, None for any other file."""
    first = next(chunks, b"")
    if first[:4] != elf.MAGIC:
        return None
    facts = content.examine(path, size, chain((first,), chunks))
    return Member(path, "file", size=facts.size, sha256=facts.sha256, owner=owner, marks=facts.marks, elf=facts.elf)


def link(path: str, target: str, owner: str) -> Member:
    """A symlink."""
    return Member(path, "symlink", 0o777, target=target, owner=owner)


def _wheel(wheel: Wheel, path: Path, venv: Venv, excuse: str | None) -> Contents:
    owner = f"wheel {wheel.name} {wheel.version}"
    found = []
    with paused_gc(), OpenWheel(path, wheel, venv, excuse=excuse) as opened:
        for file in opened.files:
            if file.target:
                found.append(link(file.path, file.target, owner))
            elif file.member is not None and not file.path.endswith(_TEXTS):
                each = member(file.path, file.size, opened.chunks(file), owner)
                found += [each] if each else []
    return Contents(tuple(found), {})


def _deb(artifact: Artifact, path: Path) -> Contents:
    owner = f"deb {artifact.name} {artifact.version}"
    found: dict[str, Member] = {}
    texts = {}
    with open_tar(path, "data") as tar:
        for entry in tar:
            if entry.kind == "file" and entry.path.startswith("etc/ld.so.conf"):
                texts[entry.path] = b"".join(tar.content())
                found[entry.path] = Member(entry.path, "file", size=entry.size, owner=owner)
            elif entry.kind == "file" and (each := member(entry.path, entry.size, tar.content(), owner)):
                found[entry.path] = each
            elif entry.kind == "hardlink" and entry.target in found:
                found[entry.path] = found[entry.target]._replace(path=entry.path)
            elif entry.kind == "symlink" and (".so" in entry.path or "/" not in entry.path):
                found[entry.path] = link(entry.path, entry.target, owner)
    return Contents(tuple(found.values()), texts)


@functools.cache
def _version() -> str:
    """Names this code's behaviour."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for module in (content, elf, index):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def _file(artifact: Artifact, venv: Venv, cache: Path) -> Path:
    place = "" if isinstance(artifact, Deb) else f"{venv.prefix} {venv.python}"
    digits = hashlib.sha256(f"{_version()} {artifact.file} {place}".encode()).hexdigest()[:8]
    return cache / "ahead" / artifact.sha256[:2] / f"{artifact.sha256}.{digits}.json"


def _dump(found: Contents) -> dict[str, Any]:
    return {
        "members": found.members,
        "texts": {path: text.decode("latin-1") for path, text in found.texts.items()},
    }


def _load(document: dict[str, Any]) -> Contents:
    return Contents(
        tuple(map(member_of, document["members"])),
        {path: text.encode("latin-1") for path, text in document["texts"].items()},
    )
