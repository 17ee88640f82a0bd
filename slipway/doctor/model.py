"""What a check looks at and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Severity = Literal["ok", "note", "warning", "error"]
"""note: worth knowing. warning: part of what build.py does won't work. error: nothing can be built here."""


@dataclass(frozen=True)
class Machine:
    """Where this machine keeps what a build needs: the folders the user chose."""

    store: Path
    cache: Path
    output: Path


@dataclass(frozen=True)
class Finding:
    """One line of the report. `remedy` is what to do, a command where there is one; empty when nothing is wrong."""

    check: str
    severity: Severity
    what: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[[Machine], Iterable[Finding]]
