"""The bill of materials in CycloneDX 1.6 JSON (https://cyclonedx.org/docs/1.6/json/), a function of the lock."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from slipway.image.config import CREATED
from slipway.image.manifest import canonical
from slipway.lock.model import Lock
from slipway.supply.components import Component

MEDIA_TYPE = "application/vnd.cyclonedx+json"


def cyclonedx(lock: Lock, lock_sha256: str, found: Sequence[Component]) -> bytes:
    """Canonical JSON; the serial number is made of lock_sha256, the time is that of the image's files."""
    label = f"{lock.release}-{lock.variant}-{lock.arch}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'slipway {label} {lock_sha256}')}",
        "version": 1,
        "metadata": {
            "timestamp": CREATED,
            "component": {"type": "container", "bom-ref": "image", "name": f"slipway-{label}", "version": lock_sha256},
            "tools": {"components": [{"type": "application", "name": "slipway"}]},
        },
        "components": [_component(one) for one in found],
        "dependencies": [{"ref": "image", "dependsOn": [one.id for one in found if one.purpose == "image"]}],
    }
    return canonical(document)


def _component(one: Component) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": one.id,
        "name": one.artifact.name,
        "version": one.artifact.version,
        "scope": "required" if one.purpose == "image" else "excluded",
        "purl": one.purl,
        "hashes": [{"alg": "SHA-256", "content": one.artifact.sha256}],
        "properties": [
            {"name": "slipway:file", "value": one.artifact.file},
            {"name": "slipway:kind", "value": one.kind},
            {"name": "slipway:source", "value": one.licence.source},
        ],
    }
    if one.licence.expression:
        component["licenses"] = [{"expression": one.licence.expression}]
    elif one.licence.text:
        component["licenses"] = [{"license": {"name": one.licence.text}}]
    return component
