"""Image manifest and index, as canonical JSON bytes.

Formats: manifest.md and image-index.md of https://github.com/opencontainers/image-spec/tree/v1.1.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.image.config import ImageLayer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"


@dataclass(frozen=True)
class Document:
    """JSON bytes with what a descriptor says of them."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def descriptor(self, **more: Any) -> dict[str, Any]:
        """An OCI descriptor (size in bytes) of these bytes."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content), **more}


def canonical(value: object) -> bytes:
    """JSON whose bytes depend on the value alone: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def manifest(config: Document, layers: Sequence[ImageLayer], annotations: Mapping[str, str]) -> Document:
    """The manifest of one platform's image."""
    return Document(
        MANIFEST,
        canonical(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(),
                "layers": [
                    {
                        "mediaType": layer.blob.media_type,
                        "digest": layer.blob.digest,
                        "size": layer.blob.size,
                        "annotations": {"io.slipway.layer": layer.name, "io.slipway.key": layer.key},
                    }
                    for layer in layers
                ],
                "annotations": dict(sorted(annotations.items())),
            }
        ),
    )


def index(manifests: Sequence[Mapping[str, Any]]) -> Document:
    """An index over manifest descriptors: what an OCI layout's index.json holds."""
    return Document(INDEX, canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)}))
