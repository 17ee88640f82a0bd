"""What this machine computes on, found without importing torch (seconds)."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Literal

Kind = Literal["cpu", "gpu"]


def kind(dev: Path = Path("/dev")) -> Kind:
    """`gpu` when torch was built for one and a device file is there."""
    if cpu_build() or not any(entry.name[6:].isdigit() for entry in dev.glob("nvidia[0-9]*")):
        return "cpu"
    return "gpu"


def cpu_build() -> bool:
    """True when the installed torch has no GPU support (local version `+cpu`)."""
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
