"""The bill of materials in SPDX 2.3 JSON (https://spdx.github.io/spdx-spec/v2.3/): a function of lock and licences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipway.image.config import CREATED
from slipway.image.manifest import canonical
from slipway.lock.model import Lock
from slipway.supply.components import Component

MEDIA_TYPE = "application/spdx+json"
NONE = "NOASSERTION"


def spdx(lock: Lock, lock_sha256: str, found: Sequence[Component]) -> bytes:
    """Canonical JSON. lock_sha256 names the document: the same lock gives the same bytes."""
    label = f"{lock.release}-{lock.variant}-{lock.arch}"
    image = {
        "SPDXID": "SPDXRef-image",
        "name": f"slipway-{label}",
        "versionInfo": lock_sha256,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": NONE,
        "copyrightText": NONE,
        "primaryPackagePurpose": "CONTAINER",
    }
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"slipway-{label}",
        "documentNamespace": f"https://slipway.invalid/sbom/{label}/{lock_sha256}",
        "creationInfo": {"created": CREATED, "creators": ["Tool: slipway"]},
        "packages": [image, *(_package(one) for one in found)],
        "relationships": [_relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"), *map(_place, found)],
    }
    return canonical(document)


def _package(one: Component) -> dict[str, Any]:
    words = one.licence.text
    package = {
        "SPDXID": f"SPDXRef-{one.id}",
        "name": one.artifact.name,
        "versionInfo": one.artifact.version,
        "packageFileName": one.artifact.file,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": one.artifact.sha256}],
        "licenseConcluded": NONE,
        "licenseDeclared": one.licence.expression or NONE,
        "copyrightText": NONE,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": one.purl}
        ],
    }
    if words and words != one.licence.expression:
        package["licenseComments"] = words
    if one.licence.source:
        package["sourceInfo"] = one.licence.source
    return package


def _place(one: Component) -> dict[str, str]:
    if one.purpose == "build":
        return _relation(f"SPDXRef-{one.id}", "BUILD_TOOL_OF", "SPDXRef-image")
    return _relation("SPDXRef-image", "CONTAINS", f"SPDXRef-{one.id}")


def _relation(source: str, kind: str, target: str) -> dict[str, str]:
    return {"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target}
