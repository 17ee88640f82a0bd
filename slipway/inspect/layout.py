"""Opens an OCI image layout: index.json → manifest → configuration → layers, every document checked by its digest.

Format: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md. Docker's media types are read, too,
because images of other builders hold them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import UsageError, WrongArtifact

MAX_DOCUMENT = 16 << 20
"""Bytes; registries refuse manifests above 4 MiB, configurations may be longer."""

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MAX_DEPTH = 4


@dataclass(frozen=True)
class LayerRef:
    """A layer as the manifest names it. sizes in bytes; name is what its builder called it, else "layer N"."""

    number: int
    name: str
    digest: str
    size: int
    media_type: str
    diff_id: str
    path: Path


@dataclass(frozen=True)
class Layout:
    """One image of a layout. `size` is what a pull moves in bytes: layers, configuration and manifest."""

    folder: Path
    digest: str
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    layers: tuple[LayerRef, ...]
    size: int

    @property
    def runtime(self) -> Mapping[str, Any]:
        """How containers start: the configuration's own "config" object."""
        return self.config.get("config") or {}

    @property
    def architecture(self) -> str:
        """GOARCH name, "" where the configuration has none."""
        return str(self.config.get("architecture", ""))

    @property
    def env(self) -> dict[str, str]:
        pairs = (str(entry).partition("=") for entry in self.runtime.get("Env") or ())
        return {name: value for name, _, value in pairs}

    @property
    def labels(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in (self.runtime.get("Labels") or {}).items()}


def open_layout(folder: Path, architecture: str | None = None) -> Layout:
    """Read an image's documents. `architecture` (GOARCH) chooses where the layout holds several images.

    Raises UsageError for what is no layout, WrongArtifact for bytes that are not those of their digest.
    """
    index_file = folder / "index.json"
    try:
        index = _json(index_file.read_bytes(), index_file)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder} is no OCI layout: it has no index.json",
            where=folder,
            remedy="name a folder that `build.py --output` wrote, or make one: skopeo copy docker://REF oci:FOLDER",
        ) from error
    descriptor = _choose(folder, index, architecture, 0)
    manifest = read_document(folder, descriptor)
    config_descriptor = _object(manifest.get("config"), "config", folder)
    config = read_document(folder, config_descriptor)
    layers = _layers(folder, manifest, config)
    size = sum(layer.size for layer in layers) + int(config_descriptor["size"]) + int(descriptor["size"])
    return Layout(folder, str(descriptor["digest"]), manifest, config, layers, size)


def blob_path(folder: Path, digest: str) -> Path:
    """Where a blob lies. Raises WrongArtifact for a digest that is none (it would name a path)."""
    algorithm, _, value = digest.partition(":")
    if algorithm not in ("sha256", "sha512") or not value or set(value) - set("0123456789abcdef"):
        raise WrongArtifact(f"{digest!r} is no digest", where=folder, why="blobs are found and checked by their digest")
    return folder / "blobs" / algorithm / value


def read_document(folder: Path, descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON document that a descriptor names, checked. Raises WrongArtifact."""
    digest = str(descriptor.get("digest", ""))
    path = blob_path(folder, digest)
    try:
        if path.stat().st_size > MAX_DOCUMENT:
            raise WrongArtifact(f"{digest} is too long for a manifest or configuration", where=path)
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise missing_blob(path, digest) from error
    found = f"{digest.partition(':')[0]}:{hashlib.new(digest.partition(':')[0], content).hexdigest()}"
    if found != digest or descriptor.get("size", len(content)) != len(content):
        raise WrongArtifact(
            f"a document of the image is not the one its digest names: {digest} wanted, {found} found",
            where=path,
            why="what the image holds can't be known",
            remedy="build or download the image again",
        )
    return _json(content, path)


def missing_blob(path: Path, digest: str) -> WrongArtifact:
    """The error for a blob that a document names and the folder lacks."""
    return WrongArtifact(
        f"the layout names {digest} but does not hold it", where=path, remedy="build or download the image again"
    )


def _choose(folder: Path, index: Mapping[str, Any], architecture: str | None, depth: int) -> Mapping[str, Any]:
    """The descriptor of the image's manifest; attestations and other platforms are passed over."""
    candidates = []
    for entry in index.get("manifests") or ():
        descriptor = _object(entry, "manifests", folder)
        platform = descriptor.get("platform") or {}
        kind = descriptor.get("mediaType")
        if "vnd.docker.reference.type" in (descriptor.get("annotations") or {}) or platform.get("os") == "unknown":
            continue
        if kind in _INDEXES and depth < _MAX_DEPTH:
            candidates.append(_choose(folder, read_document(folder, descriptor), architecture, depth + 1))
        elif kind in _MANIFESTS and architecture in (None, platform.get("architecture"), *_unnamed(platform)):
            candidates.append(descriptor)
    if len({str(candidate.get("digest")) for candidate in candidates}) == 1:
        return candidates[0]
    wanted = f" for {architecture}" if architecture else ""
    names = ", ".join(str((c.get("platform") or {}).get("architecture", "?")) for c in candidates) or "none"
    raise UsageError(
        f"the layout holds {len(candidates)} images{wanted} ({names}), one is needed",
        where=folder / "index.json",
        remedy="say which one with --arch" if candidates else "build or download the image again",
    )


def _unnamed(platform: Mapping[str, Any]) -> tuple[str | None, ...]:
    """A descriptor without a platform may be for any."""
    return () if platform.get("architecture") else (None,)


def _layers(folder: Path, manifest: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[LayerRef, ...]:
    descriptors = [_object(entry, "layers", folder) for entry in manifest.get("layers") or ()]
    diff_ids = [str(diff_id) for diff_id in (config.get("rootfs") or {}).get("diff_ids") or ()]
    if len(descriptors) != len(diff_ids):
        raise WrongArtifact(
            f"the manifest has {len(descriptors)} layers, the configuration {len(diff_ids)}",
            where=folder,
            why="an engine could not unpack the image",
        )
    found = tuple(
        LayerRef(
            number,
            str((entry.get("annotations") or {}).get("io.slipway.layer") or f"layer {number + 1}"),
            str(entry.get("digest", "")),
            int(entry.get("size", -1)),
            str(entry.get("mediaType", "")),
            diff_id,
            blob_path(folder, str(entry.get("digest", ""))),
        )
        for number, (entry, diff_id) in enumerate(zip(descriptors, diff_ids, strict=True))
    )
    for ref in found:
        _check_size(ref)
    return found


def _check_size(ref: LayerRef) -> None:
    """Cheap, and what a layer's kept index can't tell: whether its blob is there at all, and whole."""
    try:
        size = ref.path.stat().st_size
    except FileNotFoundError as error:
        raise missing_blob(ref.path, ref.digest) from error
    if ref.size != size:
        raise WrongArtifact(
            f"layer {ref.name!r} should have {ref.size} bytes and has {size}",
            where=ref.path,
            remedy="build or download the image again",
        )


def _json(content: bytes, path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise WrongArtifact(f"{path.name} is no JSON: {error}", where=path) from error
    return _object(document, path.name, path)


def _object(value: object, name: str, where: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise WrongArtifact(f"{name} should be an object of the OCI image specification", where=where)
    return value
