"""What a push sends: an image of an OCI layout as blobs and manifest, read as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import UsageError, WrongArtifact
from slipway.inspect.layout import Layout, blob_path, open_layout
from slipway.registry.upload import Upload


@dataclass(frozen=True)
class Content:
    """An image that is ready to be sent. blobs: layers and configuration; manifest: its bytes."""

    layout: Layout
    blobs: tuple[Upload, ...]
    manifest: bytes
    media_type: str

    @property
    def digest(self) -> str:
        return self.layout.digest

    @property
    def labels(self) -> Mapping[str, str]:
        return self.layout.labels

    @property
    def descriptor(self) -> dict[str, Any]:
        """What an index, or an attestation's subject, says of the manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.manifest)}

    @property
    def name(self) -> str:
        """How messages name it: release and variant where it is Slipway's own."""
        release, variant = self.labels.get("io.slipway.release"), self.labels.get("io.slipway.variant")
        return f"{release}-{variant}-{self.layout.architecture}" if release and variant else str(self.layout.folder)


def read_content(folder: Path, architecture: str | None = None) -> Content:
    """Open a layout for a push. Raises UsageError where there is none, or a gate refused it; WrongArtifact."""
    if (folder / "refused.json").exists() and not (folder / "index.json").exists():
        raise UsageError("a gate refused this image", where=folder, remedy="build it again and see what the gate says")
    layout = open_layout(folder, architecture)
    manifest = blob_path(folder, layout.digest).read_bytes()
    config = layout.manifest["config"]
    blobs = [_upload(folder, str(config["digest"]), int(config["size"]))]
    blobs += [_upload(folder, ref.digest, ref.size) for ref in layout.layers]
    media_type = str(json.loads(manifest).get("mediaType") or "application/vnd.oci.image.manifest.v1+json")
    return Content(layout, tuple({blob.digest: blob for blob in blobs}.values()), manifest, media_type)


def _upload(folder: Path, digest: str, size: int) -> Upload:
    return Upload(digest, size, blob_path(folder, digest))


def check_file(upload: Upload) -> None:
    """Hash the file of a blob that a registry would not take. Raises WrongArtifact with both digests when it is ours
    that is damaged."""
    if not isinstance(upload.content, Path):
        return
    with upload.content.open("rb", buffering=0) as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if found != upload.digest:
        raise WrongArtifact(
            f"a blob of the image is damaged: {upload.digest} wanted, {found} found",
            where=upload.content,
            why="the registry refused it; nothing was tagged",
            remedy="build the image again",
        )
