"""What a check finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from serve_app.doctor.node import Node

Severity = Literal["ok", "note", "warning", "error"]
"""note: worth knowing, nothing to do. warning: works, but slowly or at a risk. error: will not work."""

ORDER: tuple[Severity, ...] = ("ok", "note", "warning", "error")
EXIT = {"ok": 0, "note": 0, "warning": 1, "error": 2}


@dataclass(frozen=True)
class Finding:
    """remedy: what to do. why: address of the reason. Both are there whenever something is wrong."""

    check: str
    severity: Severity
    what: str
    remedy: str = ""
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """One object."""
        return asdict(self)


Check = Callable[[Node], Iterable[Finding]]


def exit_code(findings: Iterable[Finding]) -> int:
    """0 fine, 1 works but slowly or at a risk, 2 will not work."""
    return max((EXIT[finding.severity] for finding in findings), default=0)


def table(findings: Iterable[Finding]) -> str:
    """For a terminal: the worst last, where the eye is."""
    rows = sorted(findings, key=lambda finding: ORDER.index(finding.severity))
    width = max((len(row.check) for row in rows), default=0)
    lines = []
    for row in rows:
        lines.append(f"{row.severity:<8}{row.check:<{width}}  {row.what}")
        indent = " " * (10 + width)
        lines += [f"{indent}do:  {row.remedy}"] if row.remedy else []
        lines += [f"{indent}why: {row.why}"] if row.why else []
    return "\n".join(lines)
