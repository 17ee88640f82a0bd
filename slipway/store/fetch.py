"""Fills the store: every artifact from the first source that has it, several at a time, each byte verified.

Sources, in this order: the store itself, folders (`--from`), a registry copy, the mirrors that pip and apt are
configured with (or `--mirror`), snapshot archives.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slipway.errors import MissingError
from slipway.lock.model import Artifact, Lock
from slipway.pins.model import Sources
from slipway.progress import Progress, size_text
from slipway.sources.mirrors import Mirrors
from slipway.sources.retry import RetryPolicy
from slipway.store import stamp
from slipway.store.parallel import each
from slipway.store.part import is_held
from slipway.store.report import as_error
from slipway.store.store import Store
from slipway.store.trouble import ELSEWHERE

DOWNLOADS = 8
"""Downloads at the same time: enough to hide the latency of many small files, few enough for a mirror's manners."""

SPARE = 64 << 20
"""Bytes that a fetch leaves free on the disk."""

LEFTOVER_AGE = 7 * 86_400
"""Seconds after which an unfinished download that nobody works on is removed."""


@dataclass(frozen=True)
class FetchOptions:
    """Where to look, and how closely.

    folders:       searched recursively, before anything else (`--from`)
    registry_copy: reference of a repository to which the artifacts were pushed, "" for none
    mirrors:       what `--mirror` and its variables say
    defaults:      [sources] of versions.toml
    rehash:        hash what is in the store already instead of trusting its stamp
    """

    folders: tuple[Path, ...] = ()
    registry_copy: str = ""
    mirrors: Mirrors = Mirrors()
    defaults: Sources = Sources()
    rehash: bool = False
    downloads: int = DOWNLOADS
    policy: RetryPolicy = RetryPolicy()


@dataclass
class FetchResult:
    """What a fetch did. Sizes in bytes; `origins` counts fetched files by where they came from."""

    wanted: int = 0
    present: int = 0
    fetched: int = 0
    size: int = 0
    seconds: float = 0.0
    mended: list[str] = field(default_factory=list)
    origins: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        return {
            "wanted": self.wanted,
            "present": self.present,
            "fetched": self.fetched,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "mended": sorted(self.mended),
            "origins": dict(sorted(self.origins.items())),
        }


def fetch(
    lock: Lock, store: Store, options: FetchOptions | None = None, progress: Progress | None = None
) -> FetchResult:
    """Bring all downloads of a lock into the store. Raises what `fetch_artifacts` raises."""
    return fetch_artifacts(lock.downloads, store, options, progress)


def fetch_artifacts(
    artifacts: Iterable[Artifact],
    store: Store,
    options: FetchOptions | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> FetchResult:
    """Bring artifacts into the store. Touches neither network nor configuration when all are there.

    Raises ArtifactsWrong (exit 4), ArtifactsUnreachable (exit 3), MissingError (exit 3: disk full, store read-only,
    no Debian archive known); KeyboardInterrupt when `cancel` is set.
    """
    run = _Fetch(store, options or FetchOptions(), progress or Progress(), cancel or threading.Event())
    with store.in_use():
        return run.all({artifact.sha256: artifact for artifact in artifacts}.values())


def bytes_to_fetch(artifacts: Iterable[Artifact], store: Store) -> int:
    """What a fetch would download, in bytes. Unfinished downloads count as far as they have come, files that were
    copied into the store (they lack a stamp and will be hashed first) in full.
    """
    total = 0
    for artifact in store.missing(artifacts):
        there = max(_size(store.root / "part" / artifact.sha256), _size(store.path(artifact.sha256)))
        total += max(0, artifact.size - there)
    return total


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


class _Fetch:
    """One run: verify what is there, get what is not."""

    def __init__(self, store: Store, options: FetchOptions, progress: Progress, cancel: threading.Event) -> None:
        self._store = store
        self._options = options
        self._progress = progress
        self._cancel = cancel
        self._result = FetchResult()

    def all(self, artifacts: Iterable[Artifact]) -> FetchResult:
        started = time.monotonic()
        wanted = list(artifacts)
        missing = self._verify(wanted)
        self._result.wanted = len(wanted)
        self._result.present = len(wanted) - len(missing)
        if missing:
            self._clean()
            check_space(missing, self._store)
            self._acquire(missing)
        for artifact in wanted:
            stamp.used(self._store.stamp(artifact.sha256))
        self._result.seconds = time.monotonic() - started
        return self._result

    def _acquire(self, missing: Sequence[Artifact]) -> None:
        from slipway.store.acquire import Acquisition

        work = Acquisition(self._store, self._options, self._progress, self._cancel)
        work.run(missing)
        if work.findings:
            raise as_error(sorted(work.findings, key=lambda finding: finding.artifact.name))
        self._result.fetched, self._result.size, self._result.origins = work.fetched, work.size, work.origins
        self._result.present += work.brought_by_others

    def _verify(self, wanted: Sequence[Artifact]) -> list[Artifact]:
        """Those that are not in the store as they should be. What a stamp does not vouch for is hashed."""
        doubtful = [a for a in wanted if self._options.rehash or not self._store.has(a)]
        there = [artifact for artifact in doubtful if self._store.path(artifact.sha256).exists()]
        if not there:
            return doubtful
        right: set[str] = set()

        def verify(artifact: Artifact) -> None:
            actual = self._store.verify(artifact.sha256)
            row.advance(artifact.size)
            if actual is None:
                right.add(artifact.sha256)
            elif actual:
                self._result.mended.append(artifact.sha256)
                self._progress.warn(
                    f"the store's file of {artifact.label} is damaged and is fetched again: it hashes to {actual}, "
                    f"the lock says {artifact.sha256}"
                )

        with self._progress.step("verify store", sum(artifact.size for artifact in there), "bytes") as row:
            each(there, verify, self._options.downloads, self._cancel)
        return [artifact for artifact in doubtful if artifact.sha256 not in right]

    def _clean(self) -> None:
        """Remove unfinished downloads that were left long ago and that nobody works on."""
        for path in (self._store.root / "part").glob("*"):
            try:
                if time.time() - path.stat().st_mtime > LEFTOVER_AGE and not is_held(path):
                    path.unlink(missing_ok=True)
            except OSError:
                continue


def check_space(missing: Sequence[Artifact], store: Store) -> None:
    """Raise MissingError, with the bytes needed, when the disk can't hold what will be downloaded."""
    needed = bytes_to_fetch(missing, store)
    folder = next(parent for parent in (store.root, *store.root.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE:
        raise MissingError(
            f"{needed} bytes ({size_text(needed)}) have to be downloaded, {free} bytes ({size_text(free)}) are free",
            where=folder,
            remedy=f"free space (`python3 build.py store prune` removes what no lock names), or {ELSEWHERE}",
        )
