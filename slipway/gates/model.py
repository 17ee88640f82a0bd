"""What gates say and what they are told."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol

from slipway.errors import GateRefused
from slipway.inspect.image import Image

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that a gate found.

    subject: what an excuse has to match: a path of the image, for some gates more (the gate's page says what)
    what, why, remedy: see slipway.errors.SlipwayError
    An "error" refuses the image, a "warning" is shown, a "note" is listed with --json only.
    """

    subject: str
    what: str
    why: str
    remedy: str
    severity: Severity = "error"


@dataclass(frozen=True)
class GateSettings:
    """What an image's pins allow.

    compressed_mb: limit in units of 10^6 bytes of all that a pull moves, 0 for none
    layer_mb:      the same for one layer's compressed bytes
    layers:        how many there may be (containerd and Docker fail above 127, an image FROM this one needs some)
    excuses:       gate's name → pattern of a finding's subject → reason. A pattern is a shell glob whose "*" also
                   matches "/". An excused finding is listed with its reason and refuses nothing.
    """

    compressed_mb: int = 0
    layer_mb: int = 600
    layers: int = 40
    excuses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def excuse(self, gate: str, subject: str) -> tuple[str, str] | None:
        """The first (pattern, reason) that excuses a finding."""
        for pattern, reason in self.excuses.get(gate, {}).items():
            if pattern == subject or fnmatchcase(subject, pattern):
                return pattern, reason
        return None

    @property
    def checksum(self) -> str:
        """Hex; part of the key under which results are kept."""
        text = json.dumps(asdict(self), sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()


class Gate(Protocol):
    """A module of this package. NAME is how excuses and reports call it, PROVES is one sentence."""

    NAME: str
    PROVES: str

    def check(self, image: Image, settings: GateSettings) -> Iterable[Finding]: ...


@dataclass(frozen=True)
class Excused:
    """A finding that the pins allow."""

    finding: Finding
    reason: str


@dataclass(frozen=True)
class GateResult:
    """What one gate found: `findings` count, `excused` are allowed."""

    name: str
    proves: str
    findings: tuple[Finding, ...]
    excused: tuple[Excused, ...] = ()

    @property
    def refuses(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True)
class Report:
    """All gates' results for one image (its manifest's digest)."""

    image: str
    results: tuple[GateResult, ...]

    @property
    def ok(self) -> bool:
        return not any(result.refuses for result in self.results)

    def findings(self, severity: Severity) -> list[tuple[str, Finding]]:
        """(gate, finding) of one severity."""
        return [(r.name, finding) for r in self.results for finding in r.findings if finding.severity == severity]

    def as_json(self) -> dict[str, Any]:
        return {"image": self.image, "ok": self.ok, "gates": [asdict(result) for result in self.results]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Report:
        """The inverse of `as_json`. Raises KeyError or TypeError for other documents."""
        return cls(
            document["image"],
            tuple(
                GateResult(
                    gate["name"],
                    gate["proves"],
                    tuple(Finding(**finding) for finding in gate["findings"]),
                    tuple(Excused(Finding(**excused["finding"]), excused["reason"]) for excused in gate["excused"]),
                )
                for gate in document["gates"]
            ),
        )

    def text(self) -> str:
        """For people: a line per gate, then the warnings. What refuses is in `ImageRefused`."""
        lines = []
        for result in self.results:
            errors = sum(finding.severity == "error" for finding in result.findings)
            warnings = sum(finding.severity == "warning" for finding in result.findings)
            counts = [f"{errors} refused"] * bool(errors) + [f"{warnings} warnings"] * bool(warnings)
            counts += [f"{len(result.excused)} excused"] * bool(result.excused)
            lines.append(f"{'NO' if errors else 'ok':3} {result.name:11} {', '.join(counts) or result.proves}")
        return "\n".join([*lines, *_grouped("warning: ", self.findings("warning"))])

    def refuse(self) -> None:
        """Raises ImageRefused when a gate said no."""
        if not self.ok:
            raise ImageRefused(self)


def _grouped(prefix: str, findings: Iterable[tuple[str, Finding]]) -> list[str]:
    """Lines: findings that mean the same and want the same done, under one heading."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for gate, finding in findings:
        groups.setdefault((gate, finding.why, finding.remedy), []).append(f"  {finding.subject}: {finding.what}")
    lines = []
    for (gate, why, remedy), members in groups.items():
        lines += ["", f"{prefix}{gate}: {why}", *members, f"  what to do: {remedy}"]
    return [line.encode("utf-8", "backslashreplace").decode() for line in lines]


class ImageRefused(GateRefused):
    """One or more gates said no: all their findings are in the message (exit 6)."""

    def __init__(self, report: Report) -> None:
        errors = report.findings("error")
        gates = ", ".join(dict.fromkeys(gate for gate, _ in errors))
        super().__init__(
            f"the image is refused: {len(errors)} findings of {gates}",
            where=report.image,
            remedy="follow the findings, or excuse one in versions.toml with a reason",
        )
        self.report = report

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *_grouped("", self.report.findings("error"))])

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "report": self.report.as_json()}
