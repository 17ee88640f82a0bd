"""Layers of wheels before they exist: which wheels go together, who writes what, which key each layer has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from packaging.tags import Tag

from slipway.layers.bytecode import NO_BYTECODE, Bytecode
from slipway.layers.cache import LayerCache
from slipway.layers.groups import WheelGroup, group_wheels
from slipway.layers.key import layer_key
from slipway.layers.ownership import Ownership, settle
from slipway.lock.model import Artifact, Wheel
from slipway.pins.model import Contested
from slipway.wheel.content import FORMAT
from slipway.wheel.index import Indexes, WheelIndex, paused_gc
from slipway.wheel.name import check_name
from slipway.wheel.paths import Venv
from slipway.wheel.refused import RefusedWheel

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
    paths: frozenset[str] = frozenset()


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
    wheel that may not enter an image, WrongArtifact for one that is damaged.
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
                index = _read(wheel, indexes, store)
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
    paths = frozenset(path for index in found.values() for path in index.files)
    return WheelPlan(planned, ownership, missing, tuple(notes), options, paths)


def _read(wheel: Wheel, indexes: Indexes, store: WheelStore) -> WheelIndex:
    """The index of a wheel in the store. One that is refused may be its maker's fault or the disk's: hashing tells."""
    try:
        return indexes.make(wheel, store.path(wheel.sha256))
    except RefusedWheel:
        store.checked(wheel)
        raise


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
