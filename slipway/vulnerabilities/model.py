"""Findings, the allow-list, and the verdict. Pure."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway.errors import GateRefused, InvalidInput, Problem

BLOCKING = ("critical", "high", "unknown")
"""Severities that stop an image when a fix is there. Unknown: pip-audit's data has none, so it can't be ruled out."""

LONGEST = 180
"""Days that an entry of the allow-list may be good for, from today."""


@dataclass(frozen=True, order=True)
class Finding:
    """One vulnerability of one package. severity in lower case; fixed: the first version without it, "" for none."""

    id: str
    package: str
    version: str
    severity: str
    fixed: str
    aliases: tuple[str, ...] = ()

    def __str__(self) -> str:
        fix = f", fixed in {self.fixed}" if self.fixed else ", no fix"
        return f"{self.id} ({self.severity}) in {self.package} {self.version}{fix}"


@dataclass(frozen=True)
class Allowed:
    """A vulnerability that may be there until a day (inclusive), and why. package: "" for any."""

    id: str
    reason: str
    until: datetime.date
    package: str = ""
    line: int = 0

    def covers(self, finding: Finding) -> bool:
        return self.id in (finding.id, *finding.aliases) and self.package in ("", finding.package)


@dataclass(frozen=True)
class Report:
    """What one scanner said. digest: of the image that it looked at, "" where it does not say."""

    source: str
    scanner: str
    findings: tuple[Finding, ...]
    digest: str = ""


class NoData(GateRefused):
    """Nobody could say whether there are vulnerabilities (exit 6): not a pass."""

    def __init__(self, what: str, where: object = None) -> None:
        super().__init__(
            f"no vulnerability data: {what}",
            where=where,
            why="an image that nobody looked at is not an image without vulnerabilities",
            remedy="give a report with --report FILE: trivy, grype, pip-audit, or ECR's describe-image-scan-findings",
        )


@dataclass(frozen=True)
class Verdict:
    """blocking: what stops the image; allowed: what the list lets through; expired, unused: entries of the list;
    rest: findings that don't stop it."""

    blocking: tuple[Finding, ...]
    allowed: tuple[Finding, ...]
    expired: tuple[Allowed, ...]
    unused: tuple[Allowed, ...]
    rest: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.blocking and not self.expired


def judge(reports: Sequence[Report], allow: Sequence[Allowed], today: datetime.date) -> Verdict:
    """Fixable critical and high findings stop an image unless an entry covers them; an expired entry stops it by
    itself, whether or not it covers anything."""
    if not reports:
        raise NoData("no scanner's report was given")
    findings = sorted({finding for report in reports for finding in report.findings})
    live = [entry for entry in allow if entry.until >= today]
    fixable = [finding for finding in findings if finding.severity in BLOCKING and finding.fixed]
    covered = [finding for finding in fixable if any(entry.covers(finding) for entry in live)]
    return Verdict(
        tuple(finding for finding in fixable if finding not in covered),
        tuple(covered),
        tuple(entry for entry in allow if entry.until < today),
        tuple(entry for entry in live if not any(entry.covers(finding) for finding in findings)),
        tuple(finding for finding in findings if finding not in fixable),
    )


def read_allowed(path: Path, today: datetime.date) -> list[Allowed]:
    """docker/vulnerabilities.toml: `[allow.CVE-…]` with reason, until = a date, and perhaps package.

    Raises InvalidInput with every entry that lacks one of them, or is good for longer than LONGEST days."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("the allow-list can't be read", [Problem(str(path), 0, str(error))]) from error
    problems: list[Problem] = []
    entries = []
    for unknown in sorted(set(document) - {"allow"}):
        problems.append(Problem(str(path), 0, f"unknown table {unknown!r}", "entries stand under [allow.ID]"))
    for name, entry in document.get("allow", {}).items():
        wrong = list(_problems(name, entry, today))
        problems += [Problem(str(path), 0, what) for what in wrong]
        if not wrong:
            entries.append(Allowed(name, entry["reason"].strip(), entry["until"], entry.get("package", "")))
    if problems:
        raise InvalidInput("the allow-list of vulnerabilities has mistakes", problems)
    return entries


def _problems(name: str, entry: object, today: datetime.date) -> Iterable[str]:
    if not isinstance(entry, Mapping):
        yield f"{name} has to be a table with reason and until"
        return
    for key in sorted(set(entry) - {"reason", "until", "package"}):
        yield f"{name}: unknown key {key!r}"
    if not isinstance(entry.get("reason"), str) or len(entry["reason"].strip()) < 10:
        yield f"{name}: a reason has to say why this is no danger here"
    until = entry.get("until")
    if type(until) is not datetime.date:
        yield f"{name}: until has to be a date, e.g. until = {today + datetime.timedelta(30)}"
    elif until > today + datetime.timedelta(LONGEST):
        yield f"{name}: until {until} is more than {LONGEST} days away"
