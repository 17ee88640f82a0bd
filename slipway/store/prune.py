"""Takes out of the store what nothing needs any more. Waits until no build uses the store."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slipway.store import stamp
from slipway.store.store import Store
from slipway.store.trouble import explained

HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Stored:
    """One file of the store: size in bytes, last use in seconds since 1970."""

    sha256: str
    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Pruned:
    """What was, or with dry_run would be, removed; and what stays. Sizes in bytes."""

    removed: tuple[Stored, ...]
    kept: tuple[Stored, ...]
    leftovers: int
    """Bytes of unfinished and damaged files."""

    @property
    def freed(self) -> int:
        return sum(file.size for file in self.removed) + self.leftovers


def stored(store: Store) -> Iterator[Stored]:
    """All files of the store, in order of their hash."""
    for path in sorted((store.root / "sha256").glob("??/*")):
        if HEX.fullmatch(path.name) and path.is_file():
            status = path.stat()
            yield Stored(path.name, path, status.st_size, stamp.last_use(store.stamp(path.name), path))


def prune(
    store: Store,
    keep: Iterable[str],
    *,
    older_than: float | None = None,
    max_size: int | None = None,
    dry_run: bool = False,
    cancel: threading.Event | None = None,
) -> Pruned:
    """Remove files, except those whose sha256 is in `keep`.

    older_than: only those not used for so many seconds
    max_size:   only until the store holds at most so many bytes, those longest not used first
    Without either all that is not kept is removed. Unfinished and damaged files go too.
    Raises MissingError where the store can't be written.
    """
    if not store.root.is_dir():
        return Pruned((), (), 0)
    with store.alone(cancel), explained(store.root, "remove files of the store"):
        keeping = set(keep)
        files = list(stored(store))
        removed = choose(files, keeping, time.time(), older_than=older_than, max_size=max_size)
        gone = {file.sha256 for file in removed}
        leftovers = [path for folder in ("part", "damaged") for path in (store.root / folder).glob("*")]
        leftover_size = sum(path.stat().st_size for path in leftovers)
        if not dry_run:
            for file in removed:
                store.stamp(file.sha256).unlink(missing_ok=True)
                file.path.unlink(missing_ok=True)
            for path in leftovers:
                path.unlink(missing_ok=True)
        kept = tuple(file for file in files if file.sha256 not in gone)
        return Pruned(tuple(removed), kept, leftover_size)


def choose(
    files: Iterable[Stored], keep: set[str], now: float, *, older_than: float | None, max_size: int | None
) -> list[Stored]:
    """Which files to remove, those longest not used first."""
    files = list(files)
    candidates = sorted((f for f in files if f.sha256 not in keep), key=lambda file: (file.used, file.sha256))
    if older_than is not None:
        candidates = [file for file in candidates if now - file.used > older_than]
    if max_size is None:
        return candidates
    excess = sum(file.size for file in files) - max_size
    removed = []
    for file in candidates:
        if excess <= 0:
            break
        removed.append(file)
        excess -= file.size
    return removed
