"""Reads the image that an OCI layout holds: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import BuildFailed, UsageError, WrongArtifact

CHUNK = 1 << 20
NAME_ANNOTATION = "io.containerd.image.name"
TAG_ANNOTATION = "org.opencontainers.image.ref.name"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Descriptor:
    """What the layout says of one blob: size in bytes, digest "sha256:…"."""

    media_type: str
    digest: str
    size: int

    @property
    def path(self) -> str:
        """Where the blob lies in a layout."""
        return f"blobs/sha256/{self.digest.removeprefix('sha256:')}"


@dataclass(frozen=True)
class Layout:
    """One image of an OCI layout.

    diff_ids: digests of the layers' uncompressed tars, as the configuration lists them
    reference: the name that stands in the layout, "" where there is none
    """

    folder: Path
    manifest: Descriptor
    config: Descriptor
    layers: tuple[Descriptor, ...]
    diff_ids: tuple[str, ...]
    platform: Mapping[str, str]
    reference: str

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """All blobs, each once."""
        return tuple({blob.digest: blob for blob in (self.manifest, self.config, *self.layers)}.values())

    @property
    def size(self) -> int:
        """Bytes of all blobs."""
        return sum(blob.size for blob in self.blobs)


def read(folder: Path) -> Layout:
    """The one image of the layout in `folder`. Raises UsageError when there is none, WrongArtifact on damage."""
    try:
        top = json.loads((folder / "index.json").read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            "there is no image here", where=folder / "index.json", why=str(error), remedy="run: python3 build.py"
        ) from error
    entry = _only_image(folder, _list(top, "manifests", folder))
    annotations = entry.get("annotations") or {}
    manifest = _descriptor(entry, folder)
    document = json.loads(b"".join(read_blob(folder, manifest)))
    layers = _list(document, "layers", folder)
    config = _descriptor(document.get("config"), folder)
    settings = json.loads(b"".join(read_blob(folder, config)))
    diff_ids = _list(settings.get("rootfs") if isinstance(settings, dict) else None, "diff_ids", folder)
    return Layout(
        folder,
        manifest,
        config,
        tuple(_descriptor(layer, folder) for layer in layers),
        tuple(map(str, diff_ids)),
        entry.get("platform") or {},
        annotations.get(NAME_ANNOTATION) or "",
    )


def _only_image(folder: Path, entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The single manifest below an index; attestations (platform unknown/unknown) don't count."""
    images: list[Mapping[str, Any]] = []
    for entry in entries:
        if (entry.get("platform") or {}).get("os") == "unknown":
            continue
        if "index" in str(entry.get("mediaType")) or "manifest.list" in str(entry.get("mediaType")):
            nested = json.loads(b"".join(read_blob(folder, _descriptor(entry, folder))))
            images.append({**entry, **_only_image(folder, _list(nested, "manifests", folder))})
        else:
            images.append(entry)
    if len(images) != 1:
        raise UsageError(
            f"the layout holds {len(images)} images, one is needed",
            where=folder,
            remedy="build each image into an --output folder of its own",
        )
    return images[0]


def _list(document: Any, key: str, folder: Path) -> list[Any]:
    found = document.get(key) if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise UsageError(f"the layout is not valid: there is no list {key!r}", where=folder)
    return found


def _descriptor(value: Any, folder: Path) -> Descriptor:
    fields = value if isinstance(value, dict) else {}
    digest, size = fields.get("digest"), fields.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or not isinstance(size, int):
        raise UsageError(f"the layout is not valid: {value!r} is no descriptor with a sha256 digest", where=folder)
    return Descriptor(str(fields.get("mediaType", "")), digest, size)


def read_blob(folder: Path, blob: Descriptor) -> Iterator[bytes]:
    """A blob's bytes in chunks, hashed on the way. Raises WrongArtifact at its end when they are not what they say."""
    seen, size = hashlib.sha256(), 0
    try:
        with (folder / blob.path).open("rb") as file:
            while chunk := file.read(CHUNK):
                seen.update(chunk)
                size += len(chunk)
                if size <= blob.size:
                    yield chunk
    except FileNotFoundError as error:
        raise BuildFailed(
            f"the layout lacks a blob: {blob.digest}", where=folder, remedy="build again: python3 build.py"
        ) from error
    if f"sha256:{seen.hexdigest()}" != blob.digest or size != blob.size:
        raise WrongArtifact(
            f"a blob of the image is damaged: it is sha256:{seen.hexdigest()} of {size} bytes",
            where=folder / blob.path,
            why=f"its manifest says {blob.digest} of {blob.size} bytes",
            remedy="delete the file, then build again: python3 build.py",
        )
