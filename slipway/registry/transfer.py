"""Copies an image from one registry to another: every platform of an index, and what is attached, tags last.

Within one registry blobs are mounted; between two they go through a file of this machine. Nothing is deleted, and what
the target has is not sent.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.image.manifest import INDEX, index
from slipway.progress import Step
from slipway.registry.client import Manifest, Repository
from slipway.registry.pull import pull_blob
from slipway.registry.referrers import referrers, tag_of
from slipway.registry.upload import Upload
from slipway.sources.outcome import Absent
from slipway.store.parallel import each

COPIES = 4


@dataclass
class Copied:
    """What a copy did. sent counts bytes of blobs; attached counts manifests besides the image's own."""

    digest: str
    sent: int = 0
    attached: int = 0


class Transfer:
    """One copy from `source` to `target`. Raises NotHad."""

    def __init__(self, source: Repository, target: Repository, step: Step) -> None:
        self.source, self.target, self.step = source, target, step
        self.done: set[str] = set()
        same = source.reference.host == target.reference.host
        self.mount = source.reference.name if same else ""

    def run(self, tags: tuple[str, ...]) -> Copied:
        """Copy what the source's reference names; give it `tags` when all of it is there."""
        top = self.source.manifest()
        copied = Copied(top.digest)
        self._tree(top, copied)
        for tag in tags:
            self.target.put_manifest(top.content, top.media_type, tag)
        return copied

    def _tree(self, manifest: Manifest, copied: Copied) -> None:
        """A manifest below its children and blobs, then what is attached to it."""
        if manifest.digest in self.done:
            return
        self.done.add(manifest.digest)
        document = json.loads(manifest.content)
        for entry in document.get("manifests") or []:
            self._tree(self.source.manifest(str(entry["digest"])), copied)
        each(list(_blobs(document)), lambda entry: self._blob(entry, copied), COPIES, self.target.http.cancel)
        self.target.put_manifest(manifest.content, manifest.media_type, manifest.digest)
        self.step.advance()
        self._attached(manifest.digest, copied)

    def _attached(self, digest: str, copied: Copied) -> None:
        entries, _ = referrers(self.source, digest)
        for entry in entries:
            self._tree(self.source.manifest(str(entry["digest"])), copied)
            copied.attached += 1
        if entries:
            listed, native = referrers(self.target, digest)
            have = {entry["digest"] for entry in listed}
            if not native and any(entry["digest"] not in have for entry in entries):
                more = [*listed, *(entry for entry in entries if entry["digest"] not in have)]
                content = index(sorted(more, key=lambda entry: str(entry["digest"]))).content
                self.target.put_manifest(content, INDEX, tag_of(digest))
        for ending in ("sig", "att"):
            try:
                own = self.source.manifest(f"{tag_of(digest)}.{ending}")
            except Absent:
                continue
            self._tree(own, copied)
            self.target.put_manifest(own.content, own.media_type, f"{tag_of(digest)}.{ending}")

    def _blob(self, entry: Mapping[str, Any], copied: Copied) -> None:
        digest, size = str(entry["digest"]), int(entry["size"])
        if self.target.blob_size(digest, pushing=True) is not None:
            return
        with tempfile.TemporaryDirectory(prefix="slipway-copy-") as folder:
            path = Path(folder) / "blob"

            def bring() -> Path:
                """Only called when it can't be mounted."""
                if not path.exists():
                    pull_blob(self.source, digest, path, lambda _count: None)
                return path

            if self.target.push_blob(Upload(digest, size, bring), mount_from=self.mount, anew=True):
                copied.sent += size


def _blobs(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if config := document.get("config"):
        yield config
    yield from document.get("layers") or []
