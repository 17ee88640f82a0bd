"""Reads Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([-+]?(?:[0-9.]+(?:[eE][-+]?\d+)?|Inf|NaN))(?: |$)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Metrics:
    """Samples of one moment: (name, labels, value)."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    def sum(self, name: str, **labels: str) -> float:
        """Over all samples of this name that have these labels; 0 when there is none."""
        return sum(
            value
            for found, having, value in self.samples
            if found == name and all(having.get(label) == wanted for label, wanted in labels.items())
        )


def parse(text: str) -> Metrics:
    """Lines that are no samples are passed over."""
    samples = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match:
            samples.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return Metrics(tuple(samples))
