"""The image of an OCI layout as a list of blobs to send: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import WrongArtifact
from slipway.image.manifest import MANIFEST
from slipway.inspect.layout import blob_path, missing_blob, open_layout

CHUNK = 1 << 20
NAME_ANNOTATION = "io.containerd.image.name"
TAG_ANNOTATION = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Descriptor:
    """What the layout says of one blob: size in bytes, digest "sha256:…"."""

    media_type: str
    digest: str
    size: int

    @property
    def path(self) -> str:
        """Where the blob lies in a layout."""
        return f"blobs/{self.digest.replace(':', '/')}"


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
    image = open_layout(folder)
    config = image.manifest["config"]
    return Layout(
        folder,
        Descriptor(
            str(image.manifest.get("mediaType") or MANIFEST),
            image.digest,
            blob_path(folder, image.digest).stat().st_size,
        ),
        Descriptor(str(config.get("mediaType", "")), str(config["digest"]), int(config["size"])),
        tuple(Descriptor(layer.media_type, layer.digest, layer.size) for layer in image.layers),
        tuple(layer.diff_id for layer in image.layers),
        {"os": str(image.config.get("os") or "linux"), "architecture": image.architecture},
        _name(json.loads((folder / "index.json").read_bytes())),
    )


def _name(index: Mapping[str, Any]) -> str:
    """The image's full name, where whoever wrote the layout left it."""
    for entry in index["manifests"]:
        if name := (entry.get("annotations") or {}).get(NAME_ANNOTATION):
            return str(name)
    return ""


def read_blob(folder: Path, blob: Descriptor) -> Iterator[bytes]:
    """A blob's bytes in chunks, hashed on the way. Raises WrongArtifact at its end when they are not what they say."""
    path = blob_path(folder, blob.digest)
    seen, size = hashlib.new(blob.digest.partition(":")[0]), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                seen.update(chunk)
                size += len(chunk)
                if size <= blob.size:
                    yield chunk
    except FileNotFoundError as error:
        raise missing_blob(path, blob.digest) from error
    if seen.hexdigest() != blob.digest.partition(":")[2] or size != blob.size:
        raise WrongArtifact(
            f"a blob of the image is damaged: it is {seen.name}:{seen.hexdigest()} of {size} bytes",
            where=path,
            why=f"its manifest says {blob.digest} of {blob.size} bytes",
            remedy="delete the file, then build again: python3 build.py",
        )
