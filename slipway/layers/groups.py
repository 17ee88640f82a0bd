"""Which wheel goes into which layer.

The aim is that one bump moves few bytes: registries and nodes move whole layers. A function of each wheel alone, as
far as that goes, so that adding or bumping one package leaves the other packages' layers as they are:

1. A wheel named in `alone` (the image's own application) is a layer of its own.
2. So is a wheel of at least BIG bytes, together with smaller ones of the same family and version: nixl and nixl-cu13
   are always bumped together. A family is a name's part before the first "-"; of several big ones the nearest name.
3. The rest shares layers by size class (CLASSES). Most packages are tiny, and most bumps are of tiny packages: they
   share a layer with tiny ones, and move some 20 MB instead of some 300.
4. A shared layer above FULL bytes is split by a hash of the family; a wheel above FULL is split into parts by members.

One limit depends on the whole set: of more than MAX_OWN big wheels the smallest share a layer ("large") like others.

Layers are stacked in order of change: first big wheels that nothing names (CUDA's libraries), then the shared ones,
then big wheels that versions.toml names (torch, vllm, ray), then `alone`. Within that by name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from slipway.layers.entry import Entry
from slipway.lock.model import Wheel

BIG = 32_000_000
CLASSES = (
    ("large", BIG),
    ("medium", 16_000_000),
    ("small", 8_000_000),
    ("smaller", 4_000_000),
    ("little", 1_000_000),
    ("tiny", 0),
)
"""Shared layers: name, and the size of a wheel in bytes from which it belongs there."""

FULL = 560_000_000
"""Bytes of wheels in one layer; compressed as a layer they take about as much. Under the limit of 600 MB."""

MAX_OWN = 28
"""With these, the shared layers and the six that hold no wheels, an image has at most 40 layers."""


@dataclass(frozen=True)
class WheelGroup:
    """The wheels of one layer, sorted by name. part: (k, n) when this is the k-th of n layers of one huge wheel."""

    name: str
    wheels: tuple[Wheel, ...]
    rank: int = 0
    part: tuple[int, int] = (0, 1)

    @property
    def size(self) -> int:
        """Bytes of wheels behind this layer."""
        return sum(wheel.size for wheel in self.wheels) // self.part[1]


def group_wheels(
    wheels: Iterable[Wheel], *, pinned: Collection[str] = (), alone: Collection[str] = ()
) -> list[WheelGroup]:
    """Assign wheels to layers, in the order in which these are stacked. The order of `wheels` doesn't matter.

    pinned: names of distributions that versions.toml names
    alone:  names of distributions that get a layer of their own
    """
    ordered = sorted(wheels, key=lambda wheel: (canonicalize_name(wheel.name), wheel.file))
    own_names = {canonicalize_name(name) for name in alone}
    pinned_names = {canonicalize_name(name) for name in pinned}
    own = [wheel for wheel in ordered if canonicalize_name(wheel.name) in own_names]
    rest = [wheel for wheel in ordered if canonicalize_name(wheel.name) not in own_names]
    groups = [WheelGroup(_name(wheel), (wheel,), 3) for wheel in own]
    big = sorted((wheel for wheel in rest if wheel.size >= BIG), key=lambda wheel: (-wheel.size, wheel.name))[:MAX_OWN]
    with_leader: dict[Wheel, list[Wheel]] = {wheel: [wheel] for wheel in big}
    shared: dict[str, list[Wheel]] = {}
    for wheel in rest:
        if wheel in with_leader:
            continue
        if wheel.size < BIG and (leader := _leader(wheel, big)) is not None:
            with_leader[leader].append(wheel)
        else:
            shared.setdefault(_class(wheel), []).append(wheel)
    for leader, followers in with_leader.items():
        members = _sorted(followers)
        named = any(canonicalize_name(wheel.name) in pinned_names for wheel in members)
        groups += _parts(WheelGroup(_name(leader), members, 2 if named else 0))
    for name, members_of in shared.items():
        groups += _split(name, members_of)
    return sorted(groups, key=lambda group: (group.rank, group.name, group.part))


def family(wheel: Wheel) -> str:
    """What packages of one maker have in common: the name's first part."""
    return canonicalize_name(wheel.name).partition("-")[0]


def _leader(wheel: Wheel, big: Sequence[Wheel]) -> Wheel | None:
    """The big wheel that is bumped together with this one: same family and version, and of several the nearest name."""
    own = canonicalize_name(wheel.name)
    kin = [other for other in big if other.version == wheel.version and family(other) == family(wheel)]
    return min(
        kin,
        key=lambda other: (-len(os.path.commonprefix([own, canonicalize_name(other.name)])), other.name),
        default=None,
    )


def _class(wheel: Wheel) -> str:
    return next(name for name, least in CLASSES if wheel.size >= least)


def _split(name: str, wheels: list[Wheel]) -> list[WheelGroup]:
    """One shared layer, or several where it would be too big."""
    pieces = 1 + sum(wheel.size for wheel in wheels) // FULL
    if pieces == 1:
        return [WheelGroup(f"shared-{name}", _sorted(wheels), 1)]
    buckets: dict[int, list[Wheel]] = {}
    for wheel in wheels:
        buckets.setdefault(_bucket(family(wheel), pieces), []).append(wheel)
    return [WheelGroup(f"shared-{name}-{bucket}", _sorted(inner), 1) for bucket, inner in buckets.items()]


def _bucket(text: str, count: int) -> int:
    """Rendezvous hashing: another `count` moves only what has to move."""
    return max(range(count), key=lambda place: hashlib.sha256(f"{place} {text}".encode()).digest())


def _parts(group: WheelGroup) -> list[WheelGroup]:
    count = 1 + (group.size - 1) // FULL
    return [WheelGroup(group.name, group.wheels, group.rank, (place, count)) for place in range(count)]


def _sorted(wheels: list[Wheel]) -> tuple[Wheel, ...]:
    return tuple(sorted(wheels, key=lambda wheel: canonicalize_name(wheel.name)))


def _name(wheel: Wheel) -> str:
    return str(canonicalize_name(wheel.name))


def assign_parts(entries: Sequence[Entry], count: int) -> list[list[Entry]]:
    """Spread a huge wheel's entries over `count` layers: the biggest file first, each to the emptiest layer."""
    parts: list[list[Entry]] = [[] for _ in range(count)]
    filled = [0] * count
    for entry in sorted(entries, key=lambda entry: (-entry.size, entry.path)):
        place = filled.index(min(filled))
        parts[place].append(entry)
        filled[place] += entry.size
    return parts
