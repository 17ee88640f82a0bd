"""Makes the layers a plan says are missing, in parallel, and hands all of them back in the image's order."""

from __future__ import annotations

import concurrent.futures as futures
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slipway.errors import MissingError
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.pool import WorkerPool
from slipway.plan import Plan, PlannedLayer
from slipway.progress import Progress, size_text
from slipway.store import Store

SCRATCH = 2
"""Bytes of disk needed for one byte of .debs and wheels while layers are made: unpacked trees and finished layers.
A cold build of the cpu image was seen to take 1.02 (wheels are never unpacked on disk)."""


@dataclass
class Context:
    """What makers work with. `done` holds the finished layers by name; a maker finds those it needs in it."""

    store: Store
    cache: LayerCache
    pool: WorkerPool
    progress: Progress
    jobs: int
    sandbox: str = "strong"
    done: dict[str, CachedLayer] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)


def make_layers(plan: Plan, context: Context) -> list[CachedLayer]:
    """Make what is missing; each layer starts as soon as those it needs are there. Raises the first error met."""
    context.done.update({layer.recipe.name: layer.cached for layer in plan.layers if layer.cached is not None})
    waiting = {layer.recipe.name: layer for layer in plan.misses}
    running: dict[futures.Future[CachedLayer], str] = {}
    with futures.ThreadPoolExecutor(max_workers=max(len(waiting), 1), thread_name_prefix="layer") as pool:
        try:
            while waiting or running:
                for name in [name for name, layer in waiting.items() if _ready(layer, context.done)]:
                    running[pool.submit(waiting.pop(name).recipe.make, context)] = name
                finished, _ = futures.wait(running, return_when=futures.FIRST_COMPLETED)
                for future in finished:
                    context.done[running.pop(future)] = future.result()
        except BaseException:
            context.cancelled.set()
            for future in running:
                future.cancel()
            raise
    return [context.done[layer.recipe.name] for layer in plan.layers]


def _ready(layer: PlannedLayer, done: Mapping[str, CachedLayer]) -> bool:
    return all(name in done for name in layer.recipe.needs)


def check_space(plan: Plan, folder: Path, to_fetch: int) -> None:
    """Raise MissingError when the disk can't hold what this build will write. to_fetch is in bytes."""
    to_make = sum({a.sha256: a.size for a in plan.artifacts}.values())
    needed = to_fetch + to_make * SCRATCH
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise MissingError(
            f"the disk has {size_text(free)} free, this build may need {size_text(needed)}",
            where=existing,
            why=f"{size_text(to_fetch)} have to be downloaded and {size_text(to_make)} unpacked and written as layers",
            remedy="free space (`python3 build.py store prune` removes what no lock names), or name other folders with "
            "--store and --cache",
        )
