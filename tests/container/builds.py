"""Real builds for tests: the command line in a process of its own, with caches that share finished layers by links."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.cli.common import ROOT, cache_home

SYSTEM = ("debian", "fabric", "ldcache")
"""Layers that take a minute to make; tests that are not about them start with these in the cache."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, its JSON document if it printed one, and what it said on stderr."""

    code: int
    document: Mapping[str, Any]
    said: str


def command(*words: str) -> list[str]:
    return [sys.executable, str(ROOT / "build.py"), *words]


def run(*words: str, env: Mapping[str, str] | None = None, umask: int = -1, before: Sequence[str] = ()) -> Ended:
    """Run build.py with --json. before: a command that runs it (`setpriv …`)."""
    done = subprocess.run(
        [*before, *command(*words, "--json")],
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        umask=umask,
        stdin=subprocess.DEVNULL,
        timeout=1800,
        check=False,
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = {}
    return Ended(done.returncode, document, done.stderr)


def default_cache() -> Path:
    return Path(os.environ.get("SLIPWAY_CACHE") or cache_home() / "layers")


def system_keys(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    return [layer["key"] for layer in layers if layer["name"] in SYSTEM]


def cache_with(keys: Sequence[str], folder: Path) -> Path:
    """A layer cache that holds these layers of the default one, and the indexes of wheels, and nothing else."""
    source = default_cache()
    for key in keys:
        for path in source.glob(f"layers/*/{key}.*"):
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix != ".lock":
                shutil.copy2(path, target)
    return folder


def blobs(layout: Path) -> dict[str, int]:
    """Digest → size of all blobs of a layout."""
    return {path.name: path.stat().st_size for path in sorted((layout / "blobs/sha256").iterdir())}
