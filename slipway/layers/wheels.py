"""Layers of wheels: planned over all wheels of an image, then written straight from the wheels' archives.

    plan = plan_wheels(lock.wheels, Options(…), store, cache)
    with WorkerPool(jobs) as pool:
        layers = build_groups(plan, store, cache, pool)

Nothing is unpacked to disk: members are inflated, checked and compressed again in pieces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from packaging.tags import Tag

from slipway.layers.blob import BlobWriter
from slipway.layers.bytecode import NO_BYTECODE, Bytecode, compiled
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.entry import Entry, file_entry
from slipway.layers.groups import WheelGroup, assign_parts, group_wheels
from slipway.layers.key import layer_key
from slipway.layers.ownership import Ownership, settle
from slipway.layers.pool import Report, WorkerPool
from slipway.layers.tar import write_tar
from slipway.lock.model import Artifact, Wheel
from slipway.pins.model import Contested
from slipway.wheel.content import FORMAT, OpenWheel
from slipway.wheel.index import Indexes, WheelIndex, paused_gc
from slipway.wheel.name import check_name
from slipway.wheel.paths import Venv

KIND = "wheels"


class WheelStore(Protocol):
    """What is needed of slipway.store.Store."""

    def has(self, artifact: Artifact) -> bool: ...
    def path(self, sha256: str) -> Path: ...
    def checked(self, artifact: Artifact) -> Path: ...


@dataclass(frozen=True)
class Options:
    """What decides about layers of wheels besides the wheels.

    tags:      what the image's Python accepts (slipway.lock.tags.image_tags)
    excuses:   sha256 of a wheel whose RECORD may be wrong → reason
    contested: path in the image → its owner, where wheels differ
    reserved:  path → kind of what the image has in the venv anyway
    pinned:    distributions that versions.toml names: their layers come late in the stack
    alone:     distributions with a layer of their own, last of all
    """

    venv: Venv = Venv()
    tags: frozenset[Tag] | None = None
    excuses: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[str, Contested] = field(default_factory=dict)
    reserved: Mapping[str, str] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    bytecode: Bytecode = NO_BYTECODE


@dataclass(frozen=True)
class GroupPlan:
    """One layer before it exists.

    inputs: the document behind the key
    final:  False while a wheel of the image is neither in the store nor indexed: the key then is no layer's, and has
            to be planned again when the wheels are there
    ceded:  wheel's name → paths that another wheel writes
    lost:   the part of `ceded` where the other wheel's bytes differ
    modules: wheel's name → paths of the modules that get byte-code
    """

    group: WheelGroup
    key: str
    inputs: Mapping[str, Any]
    final: bool
    ceded: Mapping[str, frozenset[str]]
    lost: Mapping[str, frozenset[str]]
    modules: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        place, count = self.group.part
        return self.group.name if count == 1 else f"{self.group.name}-{place + 1}-of-{count}"


@dataclass(frozen=True)
class WheelPlan:
    """All layers of wheels of one image, in the order in which they are stacked.

    missing: wheels that are neither in the store nor indexed
    notes:   lines for people: paths that several wheels bring, excuses and byte-code lines that nothing needs
    """

    groups: tuple[GroupPlan, ...]
    ownership: Ownership
    missing: tuple[Wheel, ...]
    notes: tuple[str, ...]
    options: Options


def plan_wheels(
    wheels: Iterable[Wheel],
    options: Options,
    store: WheelStore,
    cache: LayerCache,
    made: Mapping[Wheel, bytes] | None = None,
) -> WheelPlan:
    """Assign wheels to layers and settle who writes what. Reads wheels' directories once; their index is kept.

    made: content of wheels that the driver makes itself and that need not be in the store yet
    Raises UsageError for an sdist, a wheel that doesn't fit, and for paths that wheels fight over; RefusedWheel for a
    wheel that may not enter an image.
    """
    wheels = tuple(wheels)
    for wheel in wheels:
        check_name(wheel, options.tags)
    indexes = Indexes(cache.root, options.venv, excuses=options.excuses)
    found: dict[Wheel, WheelIndex] = {}
    with paused_gc():
        for wheel in wheels:
            index = indexes.get(wheel)
            if index is None and made is not None and wheel in made:
                index = indexes.make_from(wheel, made[wheel])
            if index is None and store.has(wheel):
                index = indexes.make(wheel, store.path(wheel.sha256))
            if index is not None:
                found[wheel] = index
        ownership = settle(list(found.items()), options.contested, options.reserved)
        modules, stale = options.bytecode.by_wheel(found, ownership.ceded, options.venv)
    missing = tuple(wheel for wheel in wheels if wheel not in found)
    groups = group_wheels(wheels, pinned=options.pinned, alone=options.alone)
    known = {wheel.sha256 for wheel in wheels}
    notes = [
        *map(str, ownership.shared),
        *(f"contested path /{path} is not disputed any more" for path in ownership.unused if not missing),
        *(f"the excuse of wheel {sha256[:12]}… is not needed" for sha256 in options.excuses if sha256 not in known),
    ]
    if stale and not missing:
        notes.append(f"{len(stale)} lines of the byte-code list name no module of the image, e.g. {stale[0]}")
    planned = tuple(_plan_group(group, options, ownership, modules, not missing) for group in groups)
    return WheelPlan(planned, ownership, missing, tuple(notes), options)


def _plan_group(
    group: WheelGroup,
    options: Options,
    ownership: Ownership,
    modules: Mapping[str, tuple[str, ...]],
    final: bool,
) -> GroupPlan:
    names = [wheel.name for wheel in group.wheels]
    ceded = {name: frozenset(ownership.ceded.get(name, ())) for name in names}
    lost = {name: frozenset(ownership.lost.get(name, ())) for name in names}
    own_modules = {name: modules.get(name, ()) for name in names}
    inputs: dict[str, Any] = {
        "wheels": [
            _wheel_inputs(wheel, options, sorted(ceded[wheel.name]), sorted(lost[wheel.name])) for wheel in group.wheels
        ],
        "venv": {"prefix": options.venv.prefix, "python": options.venv.python},
        "format": FORMAT,
    }
    if group.part[1] > 1:
        inputs["part"] = list(group.part)
    if any(own_modules.values()):
        inputs["bytecode"] = options.bytecode.inputs(own_modules)
    if not final:
        inputs["provisional"] = True
    return GroupPlan(group, layer_key(KIND, inputs), inputs, final, ceded, lost, own_modules)


def _wheel_inputs(wheel: Wheel, options: Options, ceded: Sequence[str], lost: Sequence[str]) -> dict[str, Any]:
    inputs: dict[str, Any] = {"name": wheel.name, "file": wheel.file, "sha256": wheel.sha256}
    if ceded:
        inputs["ceded"] = list(ceded)
    if lost:
        inputs["lost"] = list(lost)
    if wheel.sha256 in options.excuses:
        inputs["excused"] = True
    return inputs


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
