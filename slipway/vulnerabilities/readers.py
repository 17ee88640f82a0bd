"""Reads the JSON reports of pip-audit, trivy, grype and ECR; what is none of them, or says it did not look, is no data.

Formats: https://github.com/pypa/pip-audit#json, https://trivy.dev/latest/docs/configuration/reporting/#json,
https://github.com/anchore/grype (presenter json), and DescribeImageScanFindings of ECR's API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slipway.vulnerabilities.model import Finding, NoData, Report

Document = Mapping[str, Any]


def read_report(path: Path) -> Report:
    """Raises NoData for a file that is no report, or one of a scan that did not take place."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise NoData(f"the report can't be read: {error}", path) from None
    return parse(document, str(path))


def parse(document: object, source: str) -> Report:
    """The same from a JSON document."""
    if not isinstance(document, dict):
        raise NoData("the report is no JSON object", source)
    for name, is_it, read, digest in _SCANNERS:
        if is_it(document):
            try:
                return Report(source, name, tuple(read(document, source)), digest(document))
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise NoData(f"the report of {name} has another form than expected: {error!r}", source) from None
    raise NoData("the report is none of pip-audit's, trivy's, grype's or ECR's", source)


def _pip_audit(document: Document, source: str) -> Iterator[Finding]:
    looked = [entry for entry in document["dependencies"] if "skip_reason" not in entry]
    if not looked:
        raise NoData("pip-audit looked at no package", source)
    for entry in looked:
        for found in entry["vulns"]:
            fixed = next(iter(found.get("fix_versions") or []), "")
            aliases = tuple(sorted(found.get("aliases") or []))
            yield Finding(found["id"], entry["name"], entry["version"], "unknown", fixed, aliases)


def _trivy(document: Document, source: str) -> Iterator[Finding]:
    if not document.get("Results"):
        raise NoData("trivy found nothing that it could look at", source)
    for result in document["Results"]:
        for found in result.get("Vulnerabilities") or []:
            fixed = str(found.get("FixedVersion") or "")
            package, version = found["PkgName"], found["InstalledVersion"]
            yield Finding(found["VulnerabilityID"], package, version, _severity(found.get("Severity")), fixed)


def _grype(document: Document, source: str) -> Iterator[Finding]:
    database = (document.get("descriptor") or {}).get("db") or {}
    status = database.get("status") or database
    if status.get("error") or status.get("valid") is False:
        raise NoData("grype had no valid database", source)
    for match in document["matches"]:
        found, package = match["vulnerability"], match["artifact"]
        fix = found.get("fix") or {}
        fixed = next(iter(fix.get("versions") or []), "") if fix.get("state") in (None, "", "fixed") else ""
        aliases = tuple(sorted({entry["id"] for entry in match.get("relatedVulnerabilities") or []} - {found["id"]}))
        severity = _severity(found.get("severity"))
        yield Finding(found["id"], package["name"], package["version"], severity, fixed, aliases)


def _ecr(document: Document, source: str) -> Iterator[Finding]:
    status = document["imageScanStatus"].get("status")
    if status not in ("COMPLETE", "ACTIVE"):
        raise NoData(f"ECR's scan is {status}: {document['imageScanStatus'].get('description', '')}", source)
    if document.get("nextToken"):
        raise NoData("ECR's findings go on on another page", source)
    findings = document["imageScanFindings"]
    for found in findings.get("findings") or []:
        facts = {entry["key"]: entry.get("value", "") for entry in found.get("attributes") or []}
        package, version = facts.get("package_name", "?"), facts.get("package_version", "?")
        # Basic scanning does not say whether there is a fix: what can't be ruled out counts as fixable.
        fixed = facts.get("fixed_in_version") or facts.get("patched_version") or "?"
        yield Finding(found["name"], package, version, _severity(found.get("severity")), fixed)
    for found in findings.get("enhancedFindings") or []:
        details = found["packageVulnerabilityDetails"]
        for package in details["vulnerablePackages"]:
            fixed = str(package.get("fixedInVersion") or "")
            fixed = "" if fixed == "NotAvailable" else fixed
            severity = _severity(found.get("severity"))
            yield Finding(details["vulnerabilityId"], package["name"], package["version"], severity, fixed)


def _severity(value: object) -> str:
    word = str(value or "unknown").lower()
    return "unknown" if word in ("undefined", "untriaged") else word


def _no_digest(_document: Document) -> str:
    return ""


def _trivy_digest(document: Document) -> str:
    names = (document.get("Metadata") or {}).get("RepoDigests") or []
    return str(names[0]).rpartition("@")[2] if names else ""


def _grype_digest(document: Document) -> str:
    target = (document.get("source") or {}).get("target")
    return str(target.get("manifestDigest", "")) if isinstance(target, dict) else ""


def _ecr_digest(document: Document) -> str:
    return str((document.get("imageId") or {}).get("imageDigest", ""))


_SCANNERS: tuple[
    tuple[str, Callable[[Document], bool], Callable[[Document, str], Iterator[Finding]], Callable[[Document], str]], ...
] = (
    ("pip-audit", lambda d: "dependencies" in d, _pip_audit, _no_digest),
    ("trivy", lambda d: "SchemaVersion" in d, _trivy, _trivy_digest),
    ("grype", lambda d: "matches" in d, _grype, _grype_digest),
    ("ECR", lambda d: "imageScanStatus" in d, _ecr, _ecr_digest),
)
