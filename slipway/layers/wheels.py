"""Layers of wheels: planned over all wheels of an image, then written straight from the wheels' archives.

    plan = plan_wheels(lock.wheels, Options(…), store, cache)
    with WorkerPool(jobs) as pool:
        layers = build_groups(plan.groups, plan.options, store, cache, pool)

Nothing is unpacked to disk: members are inflated, checked and compressed again in pieces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial

from slipway.layers.blob import BlobWriter
from slipway.layers.bytecode import compiled
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.entry import Entry, file_entry
from slipway.layers.groups import assign_parts
from slipway.layers.pool import Report, WorkerPool
from slipway.layers.tar import write_tar
from slipway.layers.wheel_plan import KIND, GroupPlan, Options, WheelPlan, WheelStore, plan_wheels
from slipway.wheel.content import OpenWheel
from slipway.wheel.index import paused_gc

__all__ = [
    "KIND",
    "GroupPlan",
    "Options",
    "WheelPlan",
    "WheelStore",
    "build_group",
    "build_groups",
    "entries_of",
    "plan_wheels",
    "submit_group",
]


def build_group(
    plan: GroupPlan, options: Options, store: WheelStore, cache: LayerCache, report: Report | None = None
) -> CachedLayer:
    """The layer, from the cache or written now, in this process. `report` counts bytes of tar.

    Raises RefusedWheel naming wheel and member, WrongArtifact when a wheel in the store is damaged.
    """
    if not plan.final:
        raise ValueError(f"{plan.name}: plan again when the wheels are in the store")
    return cache.build(plan.key, partial(_write, plan, options, store, cache, report))


def build_groups(
    plans: Iterable[GroupPlan],
    options: Options,
    store: WheelStore,
    cache: LayerCache,
    pool: WorkerPool,
    reports: Mapping[str, Report] | None = None,
) -> list[CachedLayer]:
    """All layers, made in the pool's processes, the biggest first; in the order of `plans`. Raises the first error."""
    futures = [submit_group(plan, options, store, cache, pool, (reports or {}).get(plan.key)) for plan in plans]
    return [future.result() for future in futures]


def submit_group(
    plan: GroupPlan,
    options: Options,
    store: WheelStore,
    cache: LayerCache,
    pool: WorkerPool,
    report: Report | None = None,
) -> Future[CachedLayer]:
    """Have one layer made in a process of the pool; bigger ones go first. What is cached is not given to the pool."""
    if plan.final and (layer := cache.get(plan.key)) is not None:
        future: Future[CachedLayer] = Future()
        future.set_result(layer)
        return future
    return pool.submit(build_group, plan, _needed(plan, options), store, cache, size=plan.group.size, report=report)


def _needed(plan: GroupPlan, options: Options) -> Options:
    """Options without what only planning needs: they travel to another process."""
    own = {wheel.sha256 for wheel in plan.group.wheels}
    excuses = {sha256: reason for sha256, reason in options.excuses.items() if sha256 in own}
    return Options(venv=options.venv, excuses=excuses, bytecode=options.bytecode.for_modules(plan.modules))


def _write(
    plan: GroupPlan,
    options: Options,
    store: WheelStore,
    cache: LayerCache,
    report: Report | None,
    writer: BlobWriter,
) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(paused_gc())
        entries: list[Entry] = []
        skipped: dict[str, str] = {}
        excused: dict[str, list[str]] = {}
        for wheel in plan.group.wheels:
            excuse = options.excuses.get(wheel.sha256)
            opened = stack.enter_context(OpenWheel(store.checked(wheel), wheel, options.venv, excuse=excuse))
            code = compiled(opened, plan.modules.get(wheel.name, ()), options.bytecode, store, cache.root)
            skipped |= code.skipped
            if opened.excused:
                excused[wheel.file] = opened.excused
            entries += entries_of(
                opened, code.files, ceded=plan.ceded.get(wheel.name, ()), lost=plan.lost.get(wheel.name, ())
            )
        place, count = plan.group.part
        if count > 1:
            entries = assign_parts(entries, count)[place]
        writer.report = report
        write_tar(entries, writer)
        writer.notes["files"] = len(entries)
        if skipped:
            writer.notes["no_bytecode"] = skipped
        if excused:
            writer.notes["excused"] = excused


def entries_of(
    opened: OpenWheel,
    bytecode: Mapping[str, bytes] | None = None,
    *,
    ceded: Collection[str] = (),
    lost: Collection[str] = (),
) -> Iterator[Entry]:
    """What installing one wheel puts into the image.

    bytecode: path of a .pyc → its content
    ceded:    paths that another wheel writes; RECORD still lists them, unless they are
    lost:     to other bytes
    """
    label = opened.label
    for file in opened.files:
        if file.path in ceded:
            continue
        if file.target:
            yield Entry(file.path, "symlink", file.mode, target=file.target, origin=label)
        else:
            yield Entry(file.path, "file", file.mode, file.size, partial(opened.chunks, file), origin=label)
    for path, content in (bytecode or {}).items():
        yield file_entry(path, content, origin=label)
    yield file_entry(opened.record_path, opened.record(bytecode or (), lost), origin=label)
