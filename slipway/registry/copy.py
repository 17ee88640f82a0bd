"""A lock's artifacts as one OCI artifact, so that an image can be built again when mirrors have moved on.

Format: a manifest with artifactType ARTIFACT_TYPE, the empty config, and one layer per artifact. A layer's digest is
the sha256 that the lock names, so a build finds each file straight by digest and never reads the manifest; the
manifest keeps the registry from collecting the blobs as garbage, and its title annotations let `oras pull` unpack it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from slipway.errors import MissingError, PushFailed
from slipway.lock.model import Artifact, Lock
from slipway.progress import Progress, size_text
from slipway.registry.client import Repository
from slipway.registry.reference import Reference, parse_reference
from slipway.registry.upload import Upload
from slipway.sources.http import Http
from slipway.sources.origin import Offer, Place
from slipway.sources.outcome import NotHad
from slipway.sources.retry import PUSH_POLICY
from slipway.store.parallel import each
from slipway.store.store import Store

ARTIFACT_TYPE = "application/vnd.slipway.artifacts.v1"
LAYER_TYPE = "application/vnd.slipway.artifact.v1"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
EMPTY = b"{}"
"""The config of artifacts that have none (image specification 1.1)."""

PUSHES = 4
"""Blobs that are sent at the same time."""


class RegistryCopy:
    """A pushed copy as a source for fetch."""

    def __init__(self, reference: Reference, http: Http) -> None:
        self.name = f"registry copy {reference}"
        self._repository = Repository(reference, http)
        self._http = http

    def places(self, artifact: Artifact) -> Iterator[Place]:
        address = self._repository.blob_address(f"sha256:{artifact.sha256}")
        yield Place(address, http=self._http, headers=self._repository.pull_headers())

    def offered(self, artifact: Artifact) -> list[Offer]:
        return []


def copy_manifest(lock: Lock) -> bytes:
    """The manifest of a lock's copy: a function of the lock alone."""
    empty = Upload.of(EMPTY)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": ARTIFACT_TYPE,
        "config": {"mediaType": EMPTY_TYPE, "digest": empty.digest, "size": empty.size},
        "layers": [
            {
                "mediaType": LAYER_TYPE,
                "digest": f"sha256:{artifact.sha256}",
                "size": artifact.size,
                "annotations": {"org.opencontainers.image.title": artifact.file},
            }
            for artifact in _once(lock)
        ],
        "annotations": {"org.opencontainers.image.version": f"{lock.release}-{lock.variant}-{lock.arch}"},
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def push_artifacts(
    lock: Lock, store: Store, reference: Reference | str, progress: Progress | None = None, http: Http | None = None
) -> str:
    """Push every downloaded artifact of a lock and the manifest over them; returns the manifest's digest.

    What the registry has is not sent again. Raises MissingError or WrongArtifact where the store lacks or damaged an
    artifact, PushFailed when the registry does not take it all.
    """
    reference = parse_reference(reference) if isinstance(reference, str) else reference
    progress = progress or Progress()
    http = http or Http(policy=PUSH_POLICY, notify=progress.warn)
    repository = Repository(reference, http)
    artifacts = sorted(_once(lock), key=lambda artifact: -artifact.size)
    if lacking := store.missing(artifacts):
        raise MissingError(
            f"{len(lacking)} of {len(artifacts)} artifacts are not in the store, e.g. {lacking[0].label}",
            where=store.root,
            remedy="python3 build.py fetch brings them",
        )
    sent: list[int] = []
    with progress.step("push copy", sum(artifact.size for artifact in artifacts), "bytes") as step:

        def push(artifact: Artifact) -> None:
            upload = Upload(f"sha256:{artifact.sha256}", artifact.size, lambda: store.checked(artifact))
            with step.part(artifact.name, artifact.size) as part:
                if repository.push_blob(upload, part.advance):
                    sent.append(artifact.size)

        try:
            each(artifacts, push, PUSHES, http.cancel)
            repository.push_blob(Upload.of(EMPTY))
            digest = repository.put_manifest(copy_manifest(lock), MANIFEST_TYPE)
        except NotHad as error:
            raise PushFailed(
                f"{reference.host} did not take the copy: {error.reason}",
                where=error.address,
                why="what is there already stays, and is not sent again",
                remedy="run the command again; for 401 and 403 log in first (docker login or podman login)",
            ) from error
        step.note(f"{len(artifacts)} artifacts, {len(sent)} of them ({size_text(sum(sent))}) new")
    return digest


def _once(lock: Lock) -> list[Artifact]:
    return list({artifact.sha256: artifact for artifact in lock.downloads}.values())
