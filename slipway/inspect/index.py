"""The index of a layer: every member with its facts. Layers never change, so an index is kept by diff_id."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from slipway.inspect import content, owners
from slipway.inspect.elf import Elf
from slipway.inspect.layout import LayerRef, missing_blob
from slipway.inspect.owners import Package
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import Kind, TarMember, TarReader

_OWNERS_ONLY = re.compile(r".*\.dist-info/(RECORD|METADATA)|var/lib/dpkg/.*")
"""Kept texts that are needed while an index is made, and are long."""


class Member(NamedTuple):
    """One member of a layer.

    path:   relative to the image's root, "" for the root itself
    mode:   permission bits (0 to 0o7777);  size in bytes
    sha256: hex, of a file's content;  a hard link has its target's size, sha256 and facts
    owner:  package that brought it ("wheel torch 2.13.0"), "" where none says so
    xattrs: names only
    marks:  see content.Content
    """

    path: str
    kind: Kind
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""
    owner: str = ""
    xattrs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    elf: Elf | None = None


class LayerIndex(NamedTuple):
    """All members in the order of the tar, the packages they make up, and the texts that gates look into."""

    diff_id: str
    tar_size: int
    members: tuple[Member, ...]
    packages: tuple[Package, ...]
    texts: dict[str, bytes]


@functools.cache
def version() -> str:
    """Names this code's behaviour in cache keys: the digest of the sources that decide what an index says."""
    digest = hashlib.sha256()
    for name in ("content", "elf", "index", "owners", "untar"):
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def layer_index(layer: LayerRef, cache: Path | None) -> LayerIndex:
    """The layer's index, from `cache` (a folder) or by reading its blob. Raises WrongArtifact for damaged blobs."""
    return _cached(layer, cache) or make_index(layer, cache)


def is_cached(layer: LayerRef, cache: Path | None) -> bool:
    """Whether `layer_index` would not have to read the blob."""
    return cache is not None and _cache_file(layer, cache).is_file()


def make_index(layer: LayerRef, cache: Path | None, report: Callable[[int], None] | None = None) -> LayerIndex:
    """Read the blob, check both of its digests on the way, keep the result in `cache`. Raises WrongArtifact.

    report is told of compressed bytes that are done: all at once, at the end (a worker of slipway.layers.pool).
    """
    try:
        with layer.path.open("rb") as file:
            index = _read(layer, file)
    except FileNotFoundError as error:
        raise missing_blob(layer.path, layer.digest) from error
    if cache is not None:
        _store(index, _cache_file(layer, cache))
    if report is not None:
        report(layer.size)
    return index


def _read(layer: LayerRef, file: BufferedReader) -> LayerIndex:
    stream = LayerStream(layer, file)
    reader = TarReader(stream, str(layer.path))
    members: list[Member] = []
    contents: dict[str, content.Content] = {}
    texts: dict[str, bytes] = {}
    for entry in reader:
        facts = contents.get(entry.target) if entry.kind == "hardlink" else None
        if entry.kind == "file":
            facts = content.examine(entry.path, entry.size, reader.content())
            contents[entry.path] = facts._replace(text=None)
            if facts.text is not None:
                texts[entry.path] = facts.text
        members.append(_member(entry, facts))
    stream.finish()
    packages = owners.packages(texts)
    links = {m.path: m.target for m in members if m.kind == "symlink" and "/" not in m.path and m.target[:1] != "/"}
    owned = owners.owners(texts, packages, links)
    return LayerIndex(
        layer.diff_id,
        stream.tar_size,
        tuple(m._replace(owner=owned[m.path]) if m.path in owned else m for m in members),
        packages,
        {path: text for path, text in texts.items() if not _OWNERS_ONLY.fullmatch(path)},
    )


def _member(entry: TarMember, facts: content.Content | None) -> Member:
    member = Member(
        entry.path,
        entry.kind,
        entry.mode,
        entry.uid,
        entry.gid,
        target=entry.target,
        xattrs=tuple(sorted(entry.xattrs)),
    )
    if facts is None:
        return member
    return member._replace(size=facts.size, sha256=facts.sha256, marks=facts.marks, elf=facts.elf)


def _cache_file(layer: LayerRef, cache: Path) -> Path:
    return cache / f"{layer.diff_id.replace(':', '-')}.{version()}.json.zst"


def _cached(layer: LayerRef, cache: Path | None) -> LayerIndex | None:
    """None where nothing usable is kept: it is made anew then."""
    if cache is None:
        return None
    try:
        raw = _cache_file(layer, cache).read_bytes()
        document = json.loads(zstandard.ZstdDecompressor().decompress(raw))
        return _from_json(document)
    except (OSError, ValueError, TypeError, KeyError, IndexError, zstandard.ZstdError):
        return None


def _store(index: LayerIndex, path: Path) -> None:
    """Best effort: a folder that can't be written to costs time at the next look, nothing else.

    What other versions of this code kept of the layer is removed.
    """
    raw = zstandard.ZstdCompressor(level=1).compress(json.dumps(_to_json(index), separators=(",", ":")).encode())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(part).replace(path)
        for old in path.parent.glob(f"{path.name.partition('.')[0]}.*"):
            if old != path and not old.name.endswith(".part"):
                old.unlink(missing_ok=True)
    except OSError:
        return


def _to_json(index: LayerIndex) -> dict[str, Any]:
    texts = {path: base64.b64encode(text).decode() for path, text in index.texts.items()}
    return {**index._asdict(), "texts": texts}


def _from_json(document: dict[str, Any]) -> LayerIndex:
    return LayerIndex(
        document["diff_id"],
        document["tar_size"],
        tuple(map(member_of, document["members"])),
        tuple(Package(*row) for row in document["packages"]),
        {path: base64.b64decode(text) for path, text in document["texts"].items()},
    )


def member_of(row: list[Any]) -> Member:
    """What JSON made of a Member: its lists become the tuples that they were."""
    return Member._make((*row[:9], tuple(row[9]), tuple(row[10]), _elf(row[11]) if row[11] else None))


def _elf(row: list[Any]) -> Elf:
    elf = Elf(*row)
    return elf._replace(
        needed=tuple(elf.needed),
        rpath=tuple(elf.rpath),
        runpath=tuple(elf.runpath),
        needs=tuple((file, tuple(names)) for file, names in elf.needs),
        defines=tuple(elf.defines),
    )
