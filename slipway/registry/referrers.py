"""What belongs to an image: signatures, attestations, SBOMs, as manifests whose `subject` is the image's.

Registries with the referrers API list them; for others the client keeps the list itself, an index under the tag
`sha256-<digest of the subject>` (distribution specification 1.1, "Referrers Tag Schema").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from slipway.image.manifest import INDEX, MANIFEST, Document, canonical, index
from slipway.registry.client import MANIFEST_LIMIT, Repository
from slipway.registry.upload import Upload
from slipway.sources.address import redact
from slipway.sources.outcome import Absent, Unreachable, WrongBytes
from slipway.sources.tries import Response

EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"
PAGES = 100
NEXT = re.compile(r'<([^>]*)>\s*;\s*rel="?next"?(?:\W|$)')
"""In a Link header (RFC 8288): where the next page is."""

ROUNDS = 5
"""How often the list is written again when somebody else wrote it at the same moment."""


@dataclass(frozen=True)
class Part:
    """One blob of an attached artifact."""

    media_type: str
    content: bytes
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class Attachment:
    """Something that is attached to an image. kind: its artifactType. tag: a tag it gets besides, for readers that
    look for one (cosign's `sha256-….sig`). config: media type and bytes of its configuration, the empty one by default.
    """

    kind: str
    parts: tuple[Part, ...]
    annotations: Mapping[str, str]
    tag: str = ""
    config: tuple[str, bytes] = (EMPTY_TYPE, EMPTY)
    kept: tuple[Mapping[str, Any], ...] = ()
    """Descriptors of layers that are in the registry already and stay in front."""

    def manifest(self, subject: Mapping[str, Any]) -> Document:
        """A function of the attachment and the descriptor of what it belongs to."""
        kind, config = self.config
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": self.kind,
            "config": {"mediaType": kind, "digest": Upload.of(config).digest, "size": len(config)},
            "layers": [
                *map(dict, self.kept),
                *(
                    {
                        "mediaType": part.media_type,
                        "digest": Upload.of(part.content).digest,
                        "size": len(part.content),
                        "annotations": dict(part.annotations),
                    }
                    for part in self.parts
                ),
            ],
            "subject": {key: subject[key] for key in ("mediaType", "digest", "size")},
            "annotations": dict(self.annotations),
        }
        return Document(MANIFEST, canonical(document))


def tag_of(digest: str) -> str:
    """The tag under which the list lies where there is no referrers API."""
    return digest.replace(":", "-", 1)


def referrers(repository: Repository, digest: str) -> tuple[list[dict[str, Any]], bool]:
    """Descriptors of all that is attached to a digest, and whether the registry keeps the list itself."""
    listed = _listed(repository, digest)
    if listed is not None:
        return listed, True
    try:
        return _entries(repository.manifest(tag_of(digest)).content, repository.root), False
    except Absent:
        return [], False


def _listed(repository: Repository, digest: str) -> list[dict[str, Any]] | None:
    """What the referrers API says, page by page; None where there is no such API."""
    url = f"{repository.root}/referrers/{digest}"
    entries: list[dict[str, Any]] = []
    for _page in range(PAGES):
        try:
            response = repository.request("GET", url, repository.pull_scope, {"Accept": INDEX}, keep_body=True)
        except Absent:
            return None
        content = response.read(MANIFEST_LIMIT)
        if response.headers.get("Content-Type", "").partition(";")[0] != INDEX:
            return None
        entries += _entries(content, repository.root)
        following = NEXT.search(response.headers.get("Link", ""))
        if following is None:
            return entries
        url = urljoin(url, following[1])
    raise Unreachable(redact(repository.root), f"its list of what is attached has more than {PAGES} pages")


def attach(repository: Repository, subject: Mapping[str, Any], attachments: Sequence[Attachment]) -> list[str]:
    """Push what is not attached yet and see that it is listed; returns the digests of all manifests.

    Every manifest is pushed before the list names it, and the list before a tag of its own does.
    """
    if not attachments:
        return []
    listed, native = referrers(repository, str(subject["digest"]))
    names = {entry.get("digest") for entry in listed}
    fresh: list[dict[str, Any]] = []
    digests = []
    for attachment in attachments:
        document = attachment.manifest(subject)
        digests.append(document.digest)
        if document.digest in names:
            continue
        answer = _send(repository, attachment, document)
        if not native and not answer.headers.get("OCI-Subject"):
            annotations = dict(attachment.annotations)
            fresh.append(document.descriptor(artifactType=attachment.kind, annotations=annotations))
    if fresh:
        _list(repository, str(subject["digest"]), fresh)
    for attachment in attachments:
        if attachment.tag:
            repository.put_manifest(attachment.manifest(subject).content, MANIFEST, attachment.tag)
    return digests


def _send(repository: Repository, attachment: Attachment, document: Document) -> Response:
    """Blobs, then the manifest; once more where the registry said wrongly that it has a blob, or got other bytes."""
    blobs = [Upload.of(content) for content in (attachment.config[1], *(part.content for part in attachment.parts))]
    try:
        for blob in blobs:
            repository.push_blob(blob)
        return repository.send_manifest(document.content, MANIFEST, document.digest)
    except (Absent, Unreachable, WrongBytes) as error:
        if isinstance(error, Unreachable) and "answered 4" not in error.reason:
            raise
    for blob in blobs:
        repository.push_blob(blob, anew=True)
    return repository.send_manifest(document.content, MANIFEST, document.digest)


def _list(repository: Repository, digest: str, fresh: Sequence[Mapping[str, Any]]) -> None:
    """Add to the list under the fallback tag; read back, since two pushes may write it at once."""
    wanted = {entry["digest"] for entry in fresh}
    for _round in range(ROUNDS):
        try:
            entries = _entries(repository.manifest(tag_of(digest)).content, repository.root)
        except Absent:
            entries = []
        have = {entry.get("digest") for entry in entries}
        if wanted <= have:
            return
        entries += [dict(entry) for entry in fresh if entry["digest"] not in have]
        document = index(sorted(entries, key=lambda entry: str(entry.get("digest"))))
        repository.send_manifest(document.content, INDEX, tag_of(digest))
    entries = _entries(repository.manifest(tag_of(digest)).content, repository.root)
    if not wanted <= {entry.get("digest") for entry in entries}:
        raise Unreachable(redact(repository.root), "somebody else keeps writing the list of what is attached")


def _entries(content: bytes, where: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(content).get("manifests") or []
    except (ValueError, AttributeError):
        raise Unreachable(redact(where), "its list of what is attached is no index") from None
    return [entry for entry in found if isinstance(entry, dict)]
