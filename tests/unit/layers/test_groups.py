"""Assignment of wheels to layers: complete, bounded, and the same for everybody whom a change does not touch."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.layers.entry import Entry
from slipway.layers.groups import BIG, FULL, MAX_OWN, WheelGroup, assign_parts, group_wheels
from slipway.lock.model import Wheel

NAMES = st.from_regex(r"[a-d](-[a-d]){0,2}", fullmatch=True)
SIZES = st.one_of(st.integers(1, 2_000_000), st.integers(1, 60_000_000), st.integers(1, 700_000_000))


def wheel(name: str, size: int, version: str = "1.0") -> Wheel:
    return Wheel(name, version, f"{name.replace('-', '_')}-{version}-py3-none-any.whl", size, f"{hash(name)}")


SETS = st.dictionaries(NAMES, SIZES, max_size=25).map(lambda sizes: [wheel(*item) for item in sizes.items()])


def contents(groups: list[WheelGroup]) -> dict[tuple[str, tuple[int, int]], tuple[Wheel, ...]]:
    return {(group.name, group.part): group.wheels for group in groups}


@given(SETS, st.randoms(use_true_random=False))
def test_every_wheel_once_whatever_the_order(wheels: list[Wheel], source: random.Random) -> None:
    groups = group_wheels(wheels)
    firsts = [w for group in groups if group.part[0] == 0 for w in group.wheels]
    assert sorted(firsts, key=lambda w: w.name) == sorted(wheels, key=lambda w: w.name)
    assert len(contents(groups)) == len(groups)
    shuffled = wheels[:]
    source.shuffle(shuffled)
    assert group_wheels(shuffled) == groups


@settings(max_examples=200)
@given(SETS, NAMES, SIZES)
def test_adding_a_package_moves_only_its_own_layer(wheels: list[Wheel], name: str, size: int) -> None:
    """Where no limit on the whole set is reached; those have tests of their own."""
    wheels = [w for w in wheels if w.name != name]
    before, after = contents(group_wheels(wheels)), contents(group_wheels([*wheels, wheel(name, size)]))
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    touched = {key for key in changed if any(w.name == name for w in after.get(key, ()))}
    # A new big wheel may draw its family's small ones of the same version out of a shared layer.
    moved = {w.name for key in touched for w in after[key]} - {name}
    rest = changed - touched
    assert all({w.name for w in set(before.get(key, ())) ^ set(after.get(key, ()))} <= moved for key in rest)


@given(SETS, st.data())
def test_bumping_a_package_leaves_the_others_together(wheels: list[Wheel], data: st.DataObject) -> None:
    if not wheels:
        return
    old = data.draw(st.sampled_from(wheels))
    new = wheel(old.name, old.size + data.draw(st.integers(0, 1000)), "2.0")
    before = contents(group_wheels(wheels))
    after = contents(group_wheels([new if w is old else w for w in wheels]))
    for key, members in before.items():
        if old not in members:
            gone = {w.name for w in members} - {w.name for w in after.get(key, ())}
            assert not gone or any(new in others for others in after.values())


def test_sizes_decide() -> None:
    groups = group_wheels(
        [
            wheel("huge", BIG),
            wheel("almost", BIG - 1),
            wheel("mid", 9_000_000),
            wheel("tiny", 5),
            wheel("tiny2", 900_000),
        ]
    )
    assert {group.name: [w.name for w in group.wheels] for group in groups} == {
        "huge": ["huge"],
        "shared-medium": ["almost"],
        "shared-small": ["mid"],
        "shared-tiny": ["tiny", "tiny2"],
    }


def test_family_of_one_version_stays_together() -> None:
    wheels = [wheel("nixl", 100, "1.3.2"), wheel("nixl-cu13", BIG, "1.3.2"), wheel("nixl-other", 100, "2")]
    groups = group_wheels(wheels)
    assert [w.name for w in groups[-1].wheels] == ["nixl-other"] or len(groups) == 2
    assert any([w.name for w in group.wheels] == ["nixl", "nixl-cu13"] for group in groups)


def test_of_several_leaders_the_nearest_name() -> None:
    wheels = [wheel("nvidia-cuda-nvcc", BIG), wheel("nvidia-nvvm", 2 * BIG), wheel("nvidia-cuda-crt", 5)]
    assert [w.name for w in group_wheels(wheels)[0].wheels] == ["nvidia-cuda-crt", "nvidia-cuda-nvcc"]


def test_order_is_slow_to_fast() -> None:
    wheels = [wheel("ray", BIG), wheel("a", 1), wheel("nvidia-x", BIG), wheel("serve-app", 10), wheel("b-lib", BIG)]
    groups = group_wheels(wheels, pinned={"Ray"}, alone={"serve_app"})
    assert [group.name for group in groups] == ["b-lib", "nvidia-x", "shared-tiny", "ray", "serve-app"]


def test_never_too_many_layers() -> None:
    wheels = [wheel(f"big{number:02}", BIG + number * 100_000) for number in range(MAX_OWN + 3)]
    groups = group_wheels(wheels)
    assert len(groups) == MAX_OWN + 1
    assert [w.name for group in groups if len(group.wheels) > 1 for w in group.wheels] == ["big00", "big01", "big02"]
    assert len(group_wheels([*wheels, wheel("tiny", 1), wheel("mid", 9_000_000)])) == MAX_OWN + 3


def test_one_big_wheel_too_many_moves_one() -> None:
    wheels = [wheel(f"big{number:02}", BIG + number * 100_000) for number in range(MAX_OWN)]
    before, after = contents(group_wheels(wheels)), contents(group_wheels([*wheels, wheel("new", 2 * BIG)]))
    assert {key[0] for key in before.items() ^ after.items()} == {
        ("big00", (0, 1)),
        ("new", (0, 1)),
        ("shared-large", (0, 1)),
    }


@pytest.mark.parametrize("count", [30, 100])
def test_shared_layers_are_split_when_full(count: int) -> None:
    wheels = [wheel(f"f{number}-x", 20_000_000) for number in range(count)]
    groups = group_wheels(wheels)
    assert len(groups) > 1
    assert max(group.size for group in groups) <= FULL * 1.6  # by hash, so not even
    assert len(group_wheels(wheels[:25])) == 1


def test_huge_wheel_becomes_parts() -> None:
    groups = group_wheels([wheel("jit-cache", 3 * FULL - 5)])
    assert [group.part for group in groups] == [(0, 3), (1, 3), (2, 3)]
    assert max(group.size for group in groups) <= FULL


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 5))
def test_parts_hold_every_entry_once(sizes: list[int], count: int) -> None:
    entries = [Entry(f"f{number}", size=size) for number, size in enumerate(sizes)]
    parts = assign_parts(entries, count)
    assert len(parts) == count
    assert sorted(e.path for part in parts for e in part) == sorted(e.path for e in entries)
    assert parts == assign_parts(list(reversed(entries)), count)
    filled = [sum(entry.size for entry in part) for part in parts]
    assert max(filled) - min(filled) <= max(sizes, default=0)
