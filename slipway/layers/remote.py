"""A layer cache in a registry, shared between machines: finished layers are taken by key instead of being made.

Each layer is an OCI artifact of its own under the tag `layer-<key>`: one blob, with what the cache knows of it as
annotations. Taken is only what a committed list binds to its key (slipway.layers.records), or everything where the
user says so (--trust-cache). A cache that does not answer costs a warning and nothing else; one that has other bytes
than the list, or than it says itself, ends the build: somebody has changed what others take.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway.errors import BuildFailed, PushFailed, WrongArtifact
from slipway.layers import records
from slipway.layers.blob import Blob
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.records import Known
from slipway.progress import Progress
from slipway.registry.client import Repository
from slipway.registry.pull import pull_blob
from slipway.registry.upload import Upload
from slipway.sources.outcome import Absent, NotHad, WrongBytes

ARTIFACT_TYPE = "application/vnd.slipway.layer.v1"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
_NOTE = "io.slipway.cache"
_NOTES_LIMIT = 1 << 18


def tag(key: str) -> str:
    """Where a layer is found."""
    return f"layer-{key}"


@dataclass
class RemoteCache:
    """known: what committed lists bind to keys; trust: take what no list knows, too.

    refused: keys that the cache has, and that were not taken because no list knows them
    """

    repository: Repository
    known: Mapping[str, Known] = field(default_factory=dict)
    trust: bool = False
    refused: list[str] = field(default_factory=list)

    def take(self, key: str, cache: LayerCache, progress: Progress) -> CachedLayer | None:
        """Bring a layer into the local cache. None where this cache has none that may be taken.

        Raises WrongArtifact where the cache has other bytes than the list or its own record says.
        """
        try:
            found = self._find(key)
            if found is None:
                return None
            blob, notes = found
            agreed = records.agrees(self.known, key, blob)
            if agreed is False:
                raise self._lies(key, f"it has {blob.digest}, the committed list says {self.known[key].digest}")
            if agreed is None and not self.trust:
                self.refused.append(key)
                return None
            work = cache.root / "work"
            work.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="layer-", dir=work) as folder:
                file = Path(folder) / "blob"
                pull_blob(self.repository, blob.digest, file, lambda _count: None)
                cache.path(key).parent.mkdir(parents=True, exist_ok=True)
                return cache.adopt(key, file, blob, notes)
        except WrongBytes as error:
            raise self._lies(key, f"{error.address} has bytes of sha256 {error.sha256}") from error
        except (NotHad, BuildFailed) as error:
            progress.warn(f"the layer cache did not give {key[:12]}: {error}; it is made here")
            return None

    def _lies(self, key: str, why: str) -> WrongArtifact:
        return WrongArtifact(
            f"the layer cache has something else than layer {key[:12]}",
            where=f"{self.repository.reference}:{tag(key)}",
            why=why,
            remedy="find out who wrote it, and delete that tag; without --layer-cache the layer is made here",
        )

    def put(self, layer: CachedLayer) -> bool:
        """Push a finished layer unless the cache has it. Whether it was sent. Raises PushFailed."""
        try:
            if self.repository.manifest_digest(tag(layer.key)) is not None:
                return False
            empty = Upload.of(b"{}")
            sent = self.repository.push_blob(Upload(layer.blob.digest, layer.blob.size, layer.checked))
            self.repository.push_blob(empty)
            self.repository.put_manifest(manifest(layer, empty), MANIFEST_TYPE, tag(layer.key))
        except NotHad as error:
            raise PushFailed(
                "the layer cache did not take a layer",
                where=error.address,
                why=error.reason,
                remedy="log in (docker login), or leave out --push-layer-cache; the image itself is finished",
            ) from error
        return bool(sent)

    def _find(self, key: str) -> tuple[Blob, Mapping[str, Any]] | None:
        try:
            document = json.loads(self.repository.manifest(tag(key)).content)
            about = json.loads(document["annotations"][_NOTE])
            if about["key"] != key:
                return None
            blob = Blob.from_json(about["blob"])
        except Absent:
            return None
        except (ValueError, KeyError, TypeError):
            return None
        return blob, dict(about.get("notes") or {})


def manifest(layer: CachedLayer, empty: Upload) -> bytes:
    """The artifact's manifest: a function of the layer alone."""
    notes = layer.notes if len(json.dumps(layer.notes)) < _NOTES_LIMIT else {}
    about = {"key": layer.key, "blob": layer.blob.as_json(), "notes": notes}
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {"mediaType": EMPTY_TYPE, "digest": empty.digest, "size": empty.size},
        "layers": [{"mediaType": layer.blob.media_type, "digest": layer.blob.digest, "size": layer.blob.size}],
        "annotations": {_NOTE: json.dumps(about, sort_keys=True)},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
