"""Memory and cores: enough to build, and to run the demo model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from slipway.doctor.model import Finding, Machine
from slipway.progress import size_text

FOR_BUILD = 2_000_000_000
FOR_DEMO = 8_000_000_000
"""Bytes. The demo is Ray, an ingress of 0.7 GB and an engine of 3.2 GB."""


def check(_machine: Machine) -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    available = read_available(Path("/proc/meminfo").read_text())
    what = f"{cores} cores, {size_text(available)} of memory available"
    if available < FOR_BUILD:
        yield Finding("memory", "warning", what, f"a build needs about {size_text(FOR_BUILD)}")
    elif available < FOR_DEMO:
        yield Finding("memory", "note", what, f"the demo model, which container tests run, needs {size_text(FOR_DEMO)}")
    else:
        yield Finding("memory", "ok", what)


def read_available(meminfo: str) -> int:
    """Bytes that MemAvailable of /proc/meminfo says, proc(5)."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0
