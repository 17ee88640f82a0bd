"""Puts several processes' metrics into one text, told apart by labels. Pure.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text, version 0.0.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+(?: \S+)?)$")


def merge(parts: Iterable[tuple[Mapping[str, str], str]]) -> str:
    """parts: (labels to add, text). Families stay together, as the format demands; HELP and TYPE stand once."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for labels, text in parts:
        extra = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                head = heads.setdefault(family, [])
                if not any(other.split(" ", 2)[1] == line.split(" ", 2)[1] for other in head):
                    head.append(line)
                samples.setdefault(family, [])
            elif match := _SAMPLE.match(line):
                name, inner, value = match.groups()
                home = family if family and name.startswith(family) else name
                inside = ",".join(part for part in (inner.rstrip(",") if inner else "", extra) if part)
                samples.setdefault(home, []).append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    lines = [line for family, found in samples.items() if found for line in [*heads.get(family, []), *found]]
    return "\n".join(lines) + "\n" if lines else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
