"""Takes out of a cache folder what no lock needs any more: layers, indexes of wheels, unpacked Pythons, byte-code.

Layers and Pythons are kept by key, indexes by their wheel's sha256. Byte-code and what gates know of old layers is kept
while it is used: by the time at which it was last read or written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.layers.cache import LayerCache

AGE = 30 * 86_400
"""Seconds without use after which byte-code and indexes of layers go."""

_BY_AGE = ("bytecode", "inspect")


@dataclass(frozen=True)
class Keep:
    """What stays. layers: keys; wheels: sha256s; pythons: names of folders below python/."""

    layers: Collection[str]
    wheels: Collection[str]
    pythons: Collection[str]


def sweep(cache: LayerCache, keep: Keep, *, dry_run: bool = False, now: float | None = None) -> dict[str, int]:
    """Folder → bytes that were, or would be, freed in it."""
    freed = {"layers": _layers(cache, keep.layers, dry_run)}
    doomed = {
        "wheels": [p for p in _files(cache.root / "wheels") if p.name.partition(".")[0] not in keep.wheels],
        "python": [p for p in _children(cache.root / "python") if p.name not in keep.pythons],
    }
    limit = (time.time() if now is None else now) - AGE
    for name in _BY_AGE:
        doomed[name] = [path for path in _files(cache.root / name) if _last_use(path) < limit]
    for name, paths in doomed.items():
        freed[name] = sum(_remove(path, dry_run) for path in paths)
    return freed


def _layers(cache: LayerCache, keep: Collection[str], dry_run: bool) -> int:
    if not dry_run:
        return cache.prune(keep)
    doomed = (p for p in _files(cache.root / "layers") if p.name.partition(".")[0] not in keep)
    return sum(path.stat().st_size for path in doomed if path.stat().st_nlink == 1)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _last_use(path: Path) -> float:
    info = path.stat()
    return max(info.st_atime, info.st_mtime)


def _remove(path: Path, dry_run: bool) -> int:
    size = sum(each.lstat().st_size for each in path.rglob("*")) if path.is_dir() else path.stat().st_size
    if dry_run:
        return size
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)  # noqa: PTH108
    return size
