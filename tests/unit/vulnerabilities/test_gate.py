"""The vulnerability gate: what stops an image, what an entry lets through and until when; no data is no pass."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from slipway.cli import main as cli
from slipway.errors import InvalidInput
from slipway.vulnerabilities.model import Allowed, Finding, NoData, Report, judge, read_allowed
from slipway.vulnerabilities.readers import parse

TODAY = datetime.date(2026, 12, 1)

PIP_AUDIT = {
    "dependencies": [
        {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"], "aliases": ["CVE-1"]}]},
        {"name": "b", "version": "1", "vulns": []},
        {"name": "c", "skip_reason": "not on the index"},
    ],
    "fixes": [],
}
TRIVY = {
    "SchemaVersion": 2,
    "Metadata": {"RepoDigests": ["h/slipway@sha256:" + "1" * 64]},
    "Results": [
        {
            "Target": "debian",
            "Vulnerabilities": [
                {
                    "VulnerabilityID": "CVE-2",
                    "PkgName": "libc6",
                    "InstalledVersion": "2.36",
                    "FixedVersion": "2.36-1",
                    "Severity": "CRITICAL",
                },
                {"VulnerabilityID": "CVE-3", "PkgName": "libc6", "InstalledVersion": "2.36", "Severity": "HIGH"},
                {
                    "VulnerabilityID": "CVE-4",
                    "PkgName": "libc6",
                    "InstalledVersion": "2.36",
                    "FixedVersion": "3",
                    "Severity": "LOW",
                },
            ],
        },
        {"Target": "python"},
    ],
}
GRYPE = {
    "matches": [
        {
            "vulnerability": {"id": "GHSA-1", "severity": "High", "fix": {"versions": ["2"], "state": "fixed"}},
            "relatedVulnerabilities": [{"id": "CVE-5"}],
            "artifact": {"name": "torch", "version": "1"},
        },
        {
            "vulnerability": {"id": "CVE-6", "severity": "Critical", "fix": {"versions": [], "state": "wont-fix"}},
            "artifact": {"name": "torch", "version": "1"},
        },
    ],
    "descriptor": {"name": "grype", "db": {"status": {"valid": True}}},
}
ECR = {
    "imageId": {"imageDigest": "sha256:" + "2" * 64},
    "imageScanStatus": {"status": "COMPLETE"},
    "imageScanFindings": {
        "findings": [
            {"name": "CVE-7", "severity": "HIGH", "attributes": [{"key": "package_name", "value": "openssl"}]},
        ],
        "enhancedFindings": [
            {
                "severity": "CRITICAL",
                "packageVulnerabilityDetails": {
                    "vulnerabilityId": "CVE-8",
                    "vulnerablePackages": [
                        {"name": "zlib", "version": "1", "fixedInVersion": "2"},
                        {"name": "zlib-dev", "version": "1", "fixedInVersion": "NotAvailable"},
                    ],
                },
            }
        ],
    },
}


@pytest.mark.parametrize(
    ("document", "blocking"),
    [(PIP_AUDIT, ["PYSEC-1"]), (TRIVY, ["CVE-2"]), (GRYPE, ["GHSA-1"]), (ECR, ["CVE-7", "CVE-8"])],
    ids=["pip-audit", "trivy", "grype", "ecr"],
)
def test_what_stops_an_image(document: dict[str, Any], blocking: list[str]) -> None:
    verdict = judge([parse(document, "x")], [], TODAY)
    assert [finding.id for finding in verdict.blocking] == blocking
    assert not verdict.ok


def test_an_entry_covers_by_id_or_alias_and_package() -> None:
    report = parse(PIP_AUDIT, "x")
    tomorrow = TODAY + datetime.timedelta(1)
    assert judge([report], [Allowed("CVE-1", "because", tomorrow)], TODAY).ok
    assert judge([report], [Allowed("PYSEC-1", "because", TODAY, "a")], TODAY).ok
    other = judge([report], [Allowed("PYSEC-1", "because", tomorrow, "b")], TODAY)
    assert not other.ok and len(other.unused) == 1


def test_an_expired_entry_stops_even_where_nothing_is_found() -> None:
    clean = Report("x", "trivy", ())
    verdict = judge([clean], [Allowed("CVE-1", "because", TODAY - datetime.timedelta(1))], TODAY)
    assert not verdict.ok and verdict.expired and not verdict.blocking


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"SchemaVersion": 2},
        {"SchemaVersion": 2, "Results": []},
        {"dependencies": []},
        {"dependencies": [{"name": "c", "skip_reason": "x"}]},
        {"matches": [], "descriptor": {"db": {"status": {"valid": False, "error": "too old"}}}},
        {"imageScanStatus": {"status": "FAILED"}, "imageScanFindings": {}},
        {"imageScanStatus": {"status": "IN_PROGRESS"}},
        {**ECR, "nextToken": "more"},
        {"dependencies": [{"name": "a", "vulns": [{}]}]},
    ],
)
def test_no_data_is_never_a_pass(document: object) -> None:
    with pytest.raises(NoData) as caught:
        judge([parse(document, "x")], [], TODAY)
    assert caught.value.exit_code == 6
    with pytest.raises(NoData):
        judge([], [], TODAY)


def test_the_list_says_all_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        """
[allow.CVE-1]
reason = "no"
until = "2026-12-31"
[allow.CVE-2]
reason = "nothing of it is reachable"
until = 2030-01-01
[allow.CVE-3]
reason = "nothing of it is reachable"
until = 2026-12-31
expires = 1
[other]
"""
    )
    with pytest.raises(InvalidInput) as caught:
        read_allowed(path, TODAY)
    assert len(caught.value.problems) == 5
    path.write_text('[allow.CVE-1]\nreason = "nothing of it is reachable"\nuntil = 2026-12-31\npackage = "a"\n')
    assert read_allowed(path, TODAY) == [
        Allowed("CVE-1", "nothing of it is reachable", datetime.date(2026, 12, 31), "a")
    ]
    assert read_allowed(tmp_path / "none.toml", TODAY) == []


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("slipway.cli.audit.process.which", lambda _name: None)
    clean = tmp_path / "clean.json"
    clean.write_text(json.dumps({"SchemaVersion": 2, "Results": [{"Target": "debian"}]}))
    dirty = tmp_path / "dirty.json"
    dirty.write_text(json.dumps(TRIVY))
    assert cli.main(["audit", "--report", str(clean)]) == 0
    assert cli.main(["audit", "--report", str(clean), "--report", str(dirty)]) == 6
    assert "CVE-2" in capsys.readouterr().err
    assert cli.main(["audit", "--report", str(dirty), "--digest", "sha256:" + "3" * 64]) == 6
    assert "the report is about" in capsys.readouterr().err
    assert cli.main(["audit"]) == 6
    assert "no vulnerability data" in capsys.readouterr().err


def test_findings_sort() -> None:
    assert Finding("a", "b", "c", "high", "") < Finding("b", "b", "c", "high", "")
