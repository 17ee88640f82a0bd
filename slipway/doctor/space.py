"""Room on disk, and folders that can be written to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from slipway.doctor.model import Finding, Machine
from slipway.progress import size_text

NEEDED = {"store": 2_000_000_000, "cache": 6_000_000_000, "output": 100_000_000}
"""Bytes that a first build of the cpu image may put in each folder. Output is hard links where it can be."""


def check(machine: Machine) -> Iterator[Finding]:
    places = {"store": machine.store, "cache": machine.cache, "output": machine.output}
    by_disk: dict[int, list[str]] = {}
    for name, folder in places.items():
        there = existing(folder)
        if not os.access(there, os.W_OK | os.X_OK):
            what = f"the {name} folder {folder} can't be written to"
            yield Finding("space", "error", what, f"name another with --{name}, or: sudo chown $USER {there}")
        by_disk.setdefault(there.stat().st_dev, []).append(name)
    for names in by_disk.values():
        folder = existing(places[names[0]])
        free, needed = shutil.disk_usage(folder).free, sum(NEEDED[name] for name in names)
        what = f"{size_text(free)} free for {', '.join(names)} ({places[names[0]]})"
        if free < needed:
            remedy = f"a first build may need {size_text(needed)}: free space, or name other folders"
            yield Finding("space", "warning", what, remedy)
        else:
            yield Finding("space", "ok", what)


def existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.is_dir())
