"""The Python that runs the driver."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

from slipway.doctor.model import Finding, Machine


def check(_machine: Machine) -> Iterator[Finding]:
    what = f"Python {platform.python_version()} in {sys.prefix}, on {platform.platform(terse=True)}"
    if sys.prefix == sys.base_prefix:
        remedy = "start the driver as python3 build.py, which makes its own environment"
        yield Finding("python", "warning", f"{what}: not the driver's own environment", remedy)
    else:
        yield Finding("python", "ok", what)
