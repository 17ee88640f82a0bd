"""How an image was made: an in-toto statement with SLSA provenance v1 (https://slsa.dev/spec/v1.0/provenance).

The materials are the lock, artifact by artifact. Who built it is said where the environment says so (CodeBuild, GitHub
Actions); no clock enters, so that pushing the same image again gives the same statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipway.image.manifest import canonical
from slipway.supply.components import Component

STATEMENT = "https://in-toto.io/Statement/v1"
SLSA = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://slipway.invalid/build/v1"
LOCAL = "https://slipway.invalid/builder/local"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


def statement(name: str, digest: str, kind: str, predicate: Mapping[str, Any]) -> bytes:
    """An in-toto statement about one image. digest: `sha256:…`."""
    algorithm, _, value = digest.partition(":")
    subject = [{"name": name, "digest": {algorithm: value}}]
    return canonical({"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": dict(predicate)})


def provenance(
    labels: Mapping[str, str], arch: str, found: Sequence[Component], builder: Mapping[str, str]
) -> dict[str, Any]:
    """The predicate. builder: see `builder_of`."""
    own = {name.removeprefix("io.slipway."): value for name, value in labels.items() if name.startswith("io.slipway.")}
    details: dict[str, Any] = {"builder": {"id": builder["id"]}}
    if "invocation" in builder:
        details["metadata"] = {"invocationId": builder["invocation"]}
    materials = [
        {
            "name": one.artifact.file,
            "uri": one.purl,
            "digest": {"sha256": one.artifact.sha256},
            "annotations": {"purpose": one.purpose},
        }
        for one in found
    ]
    lock = own.get("lock", "").removeprefix("sha256:")
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "release": own.get("release", ""),
                "variant": own.get("variant", ""),
                "architecture": arch,
                "pins": own.get("pins", ""),
            },
            "internalParameters": {"format": own.get("format", "")},
            "resolvedDependencies": [{"name": "lock", "digest": {"sha256": lock}}, *materials],
        },
        "runDetails": details,
    }


def builder_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Who builds, by CodeBuild's or GitHub's variables."""
    if arn := environ.get("CODEBUILD_BUILD_ARN"):
        account, _, build = arn.rpartition(":build/")
        return {"id": f"{account}:project/{build.partition(':')[0]}", "invocation": arn}
    if run := environ.get("GITHUB_RUN_ID"):
        server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
        return {"id": f"{server}/{repository}", "invocation": f"{server}/{repository}/actions/runs/{run}"}
    return {"id": LOCAL}
