"""How cosign lays down signatures and attestations, so that it verifies what we sign, and we what it signed.

https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md and .../ATTESTATION_SPEC.md; the envelope is DSSE:
https://github.com/secure-systems-lab/dsse/blob/master/envelope.md. One manifest holds all signatures of an image: one
more key adds a layer, and what older keys signed stays.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.image.manifest import canonical
from slipway.registry.client import Repository
from slipway.registry.referrers import Attachment, Part, tag_of
from slipway.sources.outcome import Absent
from slipway.supply.provenance import PAYLOAD_TYPE
from slipway.supply.signing import Key, is_signed

SIGNATURE = "dev.cosignproject.cosign/signature"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
DSSE = "application/vnd.dsse.envelope.v1+json"
SIG_ARTIFACT = "application/vnd.dev.cosign.artifact.sig.v1+json"
ATT_ARTIFACT = "application/vnd.dev.cosign.artifact.att.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
KEY_ID = "io.slipway.key"
PAYLOAD = "io.slipway.payload"
"""Annotations of ours: which key signed which bytes, so that pushing again does not sign again. Nobody trusts them."""


def simple_signing(repository: str, digest: str) -> bytes:
    """What a signature of an image is made over. repository: host/name."""
    critical = {
        "identity": {"docker-reference": repository},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    return canonical({"critical": critical, "optional": None})


def pae(statement: bytes) -> bytes:
    """DSSE's pre-authentication encoding: what is really signed."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(statement), statement)


def envelope(statement: bytes, key: Key) -> bytes:
    """A signed in-toto statement."""
    return canonical(
        {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(statement).decode(),
            "signatures": [{"keyid": "", "sig": key.sign(pae(statement))}],
        }
    )


def opened(content: bytes, public: bytes) -> dict[str, Any] | None:
    """The statement in an envelope that this key signed, else None."""
    try:
        document = json.loads(content)
        if document["payloadType"] != PAYLOAD_TYPE:
            return None
        payload = base64.b64decode(document["payload"])
        signatures = [str(entry["sig"]) for entry in document["signatures"]]
        if any(is_signed(pae(payload), signature, public) for signature in signatures):
            statement = json.loads(payload)
            return statement if isinstance(statement, dict) else None
    except (ValueError, KeyError, TypeError):
        pass
    return None


def signature(repository: Repository, digest: str, key: Key) -> list[Attachment]:
    """The image's signatures with this key's among them; nothing to attach where it has signed before."""
    payload = simple_signing(f"{repository.reference.host}/{repository.reference.name}", digest)
    return _with(repository, digest, "sig", SIG_ARTIFACT, key, {payload: _signature_part})


def attestations(repository: Repository, digest: str, key: Key, statements: Sequence[bytes]) -> list[Attachment]:
    """The same for in-toto statements."""
    return _with(repository, digest, "att", ATT_ARTIFACT, key, dict.fromkeys(statements, _attestation_part))


def _signature_part(payload: bytes, key: Key, marks: Mapping[str, str]) -> Part:
    return Part(SIMPLE_SIGNING, payload, {SIGNATURE: key.sign(payload), **marks})


def _attestation_part(statement: bytes, key: Key, marks: Mapping[str, str]) -> Part:
    kind = str(json.loads(statement)["predicateType"])
    return Part(DSSE, envelope(statement, key), {SIGNATURE: "", "predicateType": kind, **marks})


def _with(
    repository: Repository, digest: str, ending: str, kind: str, key: Key, wanted: Mapping[bytes, Any]
) -> list[Attachment]:
    tag = f"{tag_of(digest)}.{ending}"
    kept = layers(repository, tag)
    done = {
        (entry.get("annotations") or {}).get(PAYLOAD)
        for entry in kept
        if (entry.get("annotations") or {}).get(KEY_ID) == key.id
    }
    parts = []
    for payload, make in wanted.items():
        sha256 = f"sha256:{hashlib.sha256(payload).hexdigest()}"
        if sha256 not in done:
            parts.append(make(payload, key, {KEY_ID: key.id, PAYLOAD: sha256}))
    if not parts:
        return []
    diff_ids = [str(entry["digest"]) for entry in kept]
    diff_ids += [f"sha256:{hashlib.sha256(part.content).hexdigest()}" for part in parts]
    config = canonical({"architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    return [Attachment(kind, tuple(parts), {}, tag, (CONFIG, config), tuple(kept))]


def layers(repository: Repository, tag: str) -> list[dict[str, Any]]:
    """The layers of a manifest of signatures; none where there is no such tag."""
    try:
        found = json.loads(repository.manifest(tag).content).get("layers")
    except Absent:
        return []
    return [entry for entry in found or () if isinstance(entry, dict) and isinstance(entry.get("digest"), str)]
