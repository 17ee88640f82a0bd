"""Checks what a registry says of an image: signature, provenance, SBOM. Pure but for the questions to the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway.registry.client import Repository
from slipway.registry.pull import Remote
from slipway.registry.referrers import referrers, tag_of
from slipway.sources.outcome import Absent
from slipway.supply import cosign, cyclonedx, spdx
from slipway.supply.attach import CYCLONEDX_PREDICATE, SPDX_PREDICATE, Papers
from slipway.supply.provenance import PAYLOAD_TYPE, SLSA
from slipway.supply.signing import is_signed


@dataclass(frozen=True)
class Check:
    """One fact. state: "right", "wrong" or "not there"; detail says why."""

    name: str
    state: str
    detail: str = ""

    def as_json(self) -> dict[str, str]:
        return dict(vars(self))


def check(repository: Repository, image: Remote, made: Papers, public: bytes | None) -> list[Check]:
    """Everything that can be said without building. With a public key only what it signed counts; without one the
    documents are compared, and the signature is "not checked": that is not a pass."""
    where = f"{repository.reference.host}/{repository.reference.name}"
    if public is None:
        found = _bare(repository, image)
        return [Check("signature", "not checked", "no --key"), *_documents(found, made, image)]
    return [_signature(repository, image, where, public), *_documents(_signed(repository, image, public), made, image)]


def _signature(repository: Repository, image: Remote, where: str, public: bytes) -> Check:
    entries = cosign.layers(repository, f"{tag_of(image.digest)}.sig")
    for entry in entries:
        signature = str((entry.get("annotations") or {}).get(cosign.SIGNATURE, ""))
        payload = repository.blob(str(entry["digest"]))
        if not is_signed(payload, signature, public):
            continue
        critical = json.loads(payload).get("critical") or {}
        if (critical.get("image") or {}).get("docker-manifest-digest") == image.digest:
            return Check("signature", "right", str((critical.get("identity") or {}).get("docker-reference", where)))
    if not entries:
        return Check("signature", "not there", "nobody signed this digest")
    return Check("signature", "wrong", f"none of {len(entries)} signatures is this key's over this digest")


def _signed(repository: Repository, image: Remote, public: bytes) -> dict[str, Any]:
    """Predicates by type, of statements about this digest that the key signed."""
    found: dict[str, Any] = {}
    for entry in cosign.layers(repository, f"{tag_of(image.digest)}.att"):
        statement = cosign.opened(repository.blob(str(entry["digest"])), public)
        if statement is not None and _is_about(statement, image):
            found[str(statement.get("predicateType"))] = statement.get("predicate")
    return found


def _bare(repository: Repository, image: Remote) -> dict[str, Any]:
    """The same from the unsigned documents."""
    found: dict[str, Any] = {}
    kinds = {spdx.MEDIA_TYPE: SPDX_PREDICATE, cyclonedx.MEDIA_TYPE: CYCLONEDX_PREDICATE, PAYLOAD_TYPE: SLSA}
    for entry in referrers(repository, image.digest)[0]:
        try:
            document = json.loads(repository.manifest(str(entry["digest"])).content)
            kind = document.get("artifactType")
            if kind not in kinds or (document.get("subject") or {}).get("digest") != image.digest:
                continue
            content = json.loads(repository.blob(str(document["layers"][0]["digest"])))
        except (Absent, ValueError, KeyError, IndexError):
            continue
        if kind == PAYLOAD_TYPE:
            if not _is_about(content, image):
                continue
            content = content.get("predicate")
        found[kinds[kind]] = content
    return found


def _is_about(statement: Mapping[str, Any], image: Remote) -> bool:
    subjects = statement.get("subject") or []
    return any((subject.get("digest") or {}).get("sha256") == image.digest[7:] for subject in subjects)


def _documents(found: Mapping[str, Any], made: Papers, image: Remote) -> list[Check]:
    wanted = {
        "SBOM (SPDX)": (SPDX_PREDICATE, json.loads(made.spdx)),
        "SBOM (CycloneDX)": (CYCLONEDX_PREDICATE, json.loads(made.cyclonedx)),
        "provenance": (SLSA, made.provenance["buildDefinition"]),
    }
    checks = []
    for name, (kind, ours) in wanted.items():
        theirs = found.get(kind)
        if theirs is None:
            checks.append(Check(name, "not there", f"no document of {kind} about {image.digest}"))
            continue
        if kind == SLSA:
            theirs = theirs.get("buildDefinition") if isinstance(theirs, dict) else None
        same = theirs == ours
        checks.append(
            Check(name, "right" if same else "wrong", "" if same else "other than the lock of this checkout says")
        )
    return checks
