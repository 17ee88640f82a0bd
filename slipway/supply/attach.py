"""What is attached to an image when it is pushed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway import lock as locks
from slipway.errors import UsageError
from slipway.image.manifest import CONFIG, INDEX, MANIFEST, Document, canonical, index
from slipway.lock import file
from slipway.lock.model import Lock
from slipway.progress import Progress
from slipway.push.content import Content
from slipway.registry.client import Repository
from slipway.registry.referrers import Attachment, Part
from slipway.registry.upload import Upload
from slipway.supply import cosign, cyclonedx, spdx
from slipway.supply.components import components, read_licences
from slipway.supply.provenance import PAYLOAD_TYPE, SLSA, builder_of, provenance, statement
from slipway.supply.signing import open_key

SPDX_PREDICATE = "https://spdx.dev/Document"
CYCLONEDX_PREDICATE = "https://cyclonedx.org/bom"

Attach = Callable[[Repository, Mapping[str, Any]], Sequence[Attachment]]
"""What to attach, by the repository and the descriptor of what it is attached to."""


@dataclass(frozen=True)
class Papers:
    """The documents about one image, as bytes and, for provenance, as a predicate."""

    spdx: bytes
    cyclonedx: bytes
    provenance: Mapping[str, Any]

    def statements(self, name: str, digest: str) -> list[bytes]:
        """All three as in-toto statements about `digest`."""
        import json

        return [
            statement(name, digest, SLSA, self.provenance),
            statement(name, digest, SPDX_PREDICATE, json.loads(self.spdx)),
            statement(name, digest, CYCLONEDX_PREDICATE, json.loads(self.cyclonedx)),
        ]


def lock_of(labels: Mapping[str, str], arch: str, folder: Path = locks.FOLDER) -> tuple[Lock, str]:
    """The lock that an image was made from, and its sha256. Raises UsageError when this checkout has another one."""
    release, variant = labels.get("io.slipway.release", ""), labels.get("io.slipway.variant", "")
    wanted = labels.get("io.slipway.lock", "").removeprefix("sha256:")
    path = locks.path(release, variant, arch, folder)
    remedy = "check out the commit that the image was built from, or push with --attest none"
    if not (release and variant and wanted):
        raise UsageError("the image does not say which lock it was made from", remedy="push it with --attest none")
    if not path.exists():
        raise UsageError("the lock of the image is not in this checkout", where=path, remedy=remedy)
    lock = file.read(path)
    found = hashlib.sha256(file.dump(lock).encode()).hexdigest()
    if found != wanted:
        raise UsageError(
            f"the image was made from the lock {wanted[:12]}…, this checkout has {found[:12]}…",
            where=path,
            why="SBOM and provenance are made from the lock: they would speak of other packages than the image's",
            remedy=remedy,
        )
    return lock, found


def papers(labels: Mapping[str, str], arch: str, environ: Mapping[str, str] | None = None) -> Papers:
    """Everything that is said about an image: a function of its lock, its labels, and who builds."""
    lock, sha256 = lock_of(labels, arch)
    found = components(lock, read_licences(locks.FOLDER))
    builder = builder_of(os.environ if environ is None else environ)
    return Papers(
        spdx.spdx(lock, sha256, found),
        cyclonedx.cyclonedx(lock, sha256, found),
        provenance(labels, arch, found, builder),
    )


def attachments(content: Content, key_name: str | None, *, attest: str, progress: Progress) -> Attach:
    """What `push` attaches. The documents are made now, so that what is wrong with them is told before any upload."""
    made = papers(content.labels, content.layout.architecture) if attest != "none" else None
    key = open_key(key_name) if key_name else None
    if key is None:
        progress.warn("nothing is signed: no --key was given")

    def attach(repository: Repository, subject: Mapping[str, Any]) -> list[Attachment]:
        where = f"{repository.reference.host}/{repository.reference.name}"
        digest = str(subject["digest"])
        found = []
        if made is not None and attest == "referrers":
            found += bare(made, where, digest)
        if key is not None:
            found += cosign.signature(repository, digest, key)
            if made is not None:
                found += cosign.attestations(repository, digest, key, made.statements(where, digest))
        return found

    return attach


def bare(made: Papers, where: str, digest: str) -> list[Attachment]:
    """The documents as they are, for readers that look for a media type."""
    told = statement(where, digest, SLSA, made.provenance)
    title = "org.opencontainers.image.title"
    return [
        Attachment(spdx.MEDIA_TYPE, (Part(spdx.MEDIA_TYPE, made.spdx, {title: "sbom.spdx.json"}),), {}),
        Attachment(cyclonedx.MEDIA_TYPE, (Part(cyclonedx.MEDIA_TYPE, made.cyclonedx, {title: "sbom.cdx.json"}),), {}),
        Attachment(PAYLOAD_TYPE, (Part(PAYLOAD_TYPE, told, {title: "provenance.json"}),), {"predicateType": SLSA}),
    ]


def index_documents(content: Content) -> tuple[tuple[Document, tuple[Upload, ...]], ...]:
    """`--attest index`: an attestation manifest and an index over both, as BuildKit lays them down.

    https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md. The attestation's platform is
    unknown/unknown: engines look for one that fits and never run it.
    """
    made = papers(content.labels, content.layout.architecture)
    statements = made.statements("image", content.digest)[:2]
    uploads = [Upload.of(told) for told in statements]
    config = Document(
        CONFIG,
        canonical(
            {
                "architecture": "unknown",
                "os": "unknown",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [upload.digest for upload in uploads]},
            }
        ),
    )
    layers = [
        {
            "mediaType": PAYLOAD_TYPE,
            "digest": upload.digest,
            "size": upload.size,
            "annotations": {"in-toto.io/predicate-type": kind},
        }
        for upload, kind in zip(uploads, (SLSA, SPDX_PREDICATE), strict=True)
    ]
    attestation = Document(
        MANIFEST,
        canonical({"schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor(), "layers": layers}),
    )
    platform = {"architecture": content.layout.architecture, "os": "linux"}
    top = index(
        [
            {**content.descriptor, "platform": platform},
            attestation.descriptor(
                platform={"architecture": "unknown", "os": "unknown"},
                annotations={
                    "vnd.docker.reference.type": "attestation-manifest",
                    "vnd.docker.reference.digest": content.digest,
                },
            ),
        ]
    )
    return ((attestation, (Upload.of(config.content), *uploads)), (Document(INDEX, top.content), ()))
