"""From wheels in a store to layers: planning, keys, building in processes, and the same bytes wherever that happens."""

from __future__ import annotations

import dataclasses
import io
import os
import shutil
import tarfile

import pytest
import zstandard

from slipway.errors import UsageError, WrongArtifact
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.groups import WheelGroup
from slipway.layers.ownership import PathConflict
from slipway.layers.pool import WorkerPool
from slipway.layers.wheels import GroupPlan, Options, WheelPlan, build_group, build_groups, plan_wheels
from slipway.lock.model import Artifact, Wheel
from slipway.lock.tags import image_tags
from slipway.pins.model import Contested
from slipway.store.store import Store
from slipway.wheel.paths import Venv
from slipway.wheel.refused import RefusedWheel
from tests.unit.layers.conftest import Warehouse
from tests.unit.wheel.maker import record_hash

SITE = "opt/venv/lib/python3.11/site-packages"
TAGS = frozenset(image_tags("3.11", "2.36", "amd64"))


def planned(warehouse: Warehouse, wheels: list[Wheel], **options: object) -> tuple[WheelPlan, LayerCache]:
    cache = LayerCache(warehouse.root / "cache")
    return plan_wheels(wheels, Options(tags=TAGS, **options), warehouse.store, cache), cache  # type: ignore[arg-type]


def built(warehouse: Warehouse, wheels: list[Wheel], **options: object) -> list[CachedLayer]:
    plan, cache = planned(warehouse, wheels, **options)
    return [build_group(group, plan.options, warehouse.store, cache) for group in plan.groups]


def members(layer: CachedLayer) -> dict[str, bytes | None]:
    data = zstandard.ZstdDecompressor().stream_reader(layer.path.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: (archive.extractfile(m).read() if m.isreg() else None) for m in archive}  # type: ignore[union-attr]


def test_layer_of_two_wheels(warehouse: Warehouse) -> None:
    (layer,) = built(warehouse, [warehouse.wheel("one"), warehouse.wheel("two")])
    found = members(layer)
    assert found[f"{SITE}/one/__init__.py"] == b"name = 'one'\n"
    assert f"{SITE}/two-1.0.dist-info/RECORD" in found
    assert found["opt"] is None and found[SITE] is None
    assert layer.notes == {"files": 10}


def test_built_once(warehouse: Warehouse) -> None:
    wheels = [warehouse.wheel("one")]
    first = built(warehouse, wheels)
    shutil.rmtree(warehouse.root / "store")
    assert built(warehouse, wheels) == first


def test_key_says_what_is_written(warehouse: Warehouse) -> None:
    one, two = warehouse.wheel("one"), warehouse.wheel("two")

    def key(*wheels: Wheel, **options: object) -> str:
        return planned(warehouse, list(wheels), **options)[0].groups[0].key

    assert key(one, two) == key(two, one)
    other = {key(one), key(one, two), key(one, excuses={one.sha256: "r"}), key(one, venv=Venv("usr/local"))}
    other.add(key(dataclasses.replace(one, sha256="0" * 64)))
    assert len(other) == 5
    assert key(one) == key(one, pinned=frozenset({"one"})) == key(one, contested={"x": Contested("x", "one", "r")})
    assert key(one, excuses={one.sha256: "r"}) == key(one, excuses={one.sha256: "another reason"})


def test_plan_without_the_wheels_is_provisional(warehouse: Warehouse) -> None:
    wheels = [warehouse.wheel("one"), warehouse.wheel("two")]
    real, cache = planned(warehouse, wheels)
    shutil.rmtree(warehouse.root / "store" / "sha256")
    again, _ = planned(warehouse, wheels)
    assert again.groups == real.groups and not again.missing  # indexed before
    shutil.rmtree(cache.root)
    blind, cache = planned(warehouse, wheels)
    assert set(blind.missing) == set(wheels)
    assert not blind.groups[0].final and blind.groups[0].key != real.groups[0].key
    with pytest.raises(ValueError, match="plan again"):
        build_group(blind.groups[0], blind.options, warehouse.store, cache)


def test_plan_with_wheels_that_are_only_in_memory(warehouse: Warehouse) -> None:
    one, two = warehouse.wheel("one"), warehouse.wheel("two")
    real, _ = planned(warehouse, [one, two])
    content = warehouse.store.path(two.sha256).read_bytes()
    warehouse.store.path(two.sha256).unlink()
    cache = LayerCache(warehouse.root / "other")
    assert plan_wheels([one, two], real.options, warehouse.store, cache).missing == (two,)
    assert plan_wheels([one, two], real.options, warehouse.store, cache, {two: content}).groups == real.groups


def test_same_path_same_bytes_is_written_once(warehouse: Warehouse) -> None:
    shared = {"common/__init__.py": "same\n"}
    one = warehouse.wheel("one", files=shared)
    two = warehouse.wheel("two", files={**shared, "two.py": ""})
    plan, cache = planned(warehouse, [two, one], alone=frozenset({"two"}))
    assert [str(line) for line in plan.notes] == [
        f"/{SITE}/common/__init__.py: written by one, also in two (same bytes)"
    ]
    layers = {group.name: build_group(group, plan.options, warehouse.store, cache) for group in plan.groups}
    assert f"{SITE}/common/__init__.py" in members(layers["shared-tiny"])
    found = members(layers["two"])
    assert f"{SITE}/common/__init__.py" not in found
    row = f"common/__init__.py,{record_hash(b'same' + bytes([10]))},5\n".encode()
    assert row in (found[f"{SITE}/two-1.0.dist-info/RECORD"] or b"")
    assert plan.groups[1].key != planned(warehouse, [two], alone=frozenset({"two"}))[0].groups[0].key


def test_same_path_in_one_layer(warehouse: Warehouse) -> None:
    shared = {"common/__init__.py": "same\n"}
    (layer,) = built(warehouse, [warehouse.wheel("one", files=shared), warehouse.wheel("two", files=shared)])
    assert members(layer)[f"{SITE}/common/__init__.py"] == b"same\n"


def test_different_bytes_need_an_owner(warehouse: Warehouse) -> None:
    one = warehouse.wheel("one", files={"build_backend.py": "1"})
    two = warehouse.wheel("two", files={"build_backend.py": "2"})
    with pytest.raises(PathConflict, match=r"build_backend\.py has different bytes"):
        planned(warehouse, [one, two])
    path = f"{SITE}/build_backend.py"
    (layer,) = built(warehouse, [one, two], contested={path: Contested(path, "two", "one's is a leftover")})
    found = members(layer)
    assert found[path] == b"2"
    assert b"build_backend" not in (found[f"{SITE}/one-1.0.dist-info/RECORD"] or b"")
    assert b"build_backend" in (found[f"{SITE}/two-1.0.dist-info/RECORD"] or b"")


def test_wheel_that_does_not_fit(warehouse: Warehouse) -> None:
    with pytest.raises(UsageError, match="does not fit"):
        planned(warehouse, [warehouse.wheel("one", tag="cp312-cp312-win32")])


def test_excused_wheel(warehouse: Warehouse) -> None:
    wheel = warehouse.wheel("one", record=lambda rows: [(rows[0][0], record_hash(b"x"), rows[0][2]), *rows[1:]])
    with pytest.raises(RefusedWheel, match=r"one/__init__\.py"):
        built(warehouse, [wheel])
    (layer,) = built(warehouse, [wheel], excuses={wheel.sha256: "known"})
    assert layer.notes["excused"] == {wheel.file: ["one/__init__.py"]}


def test_damaged_store(warehouse: Warehouse) -> None:
    wheel = warehouse.wheel("one")
    plan, cache = planned(warehouse, [wheel])
    warehouse.damage(wheel)
    with pytest.raises(WrongArtifact):
        build_group(plan.groups[0], plan.options, warehouse.store, cache)
    assert cache.get(plan.groups[0].key) is None


class Trusting(Store):
    """A store that has not noticed any damage yet."""

    def has(self, artifact: Artifact) -> bool:
        return self.path(artifact.sha256).exists()


def test_damaged_store_before_the_first_plan(warehouse: Warehouse) -> None:
    """Exit 4 and not 1: nobody packed this wheel so."""
    wheel = warehouse.wheel("one")
    path = warehouse.store.path(wheel.sha256)
    path.chmod(0o644)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(WrongArtifact):
        plan_wheels([wheel], Options(), Trusting(warehouse.store.root), LayerCache(warehouse.root / "cache"))


def test_damaged_index_is_made_anew(warehouse: Warehouse) -> None:
    wheel = warehouse.wheel("one")
    plan, cache = planned(warehouse, [wheel])
    (index,) = (cache.root / "wheels").rglob("*.json")
    for old, new in (("one/__init__", "one/__evil__"), ("{", "["), ("644", "755")):
        index.write_text(index.read_text().replace(old, new, 1))
        assert planned(warehouse, [wheel])[0] == plan


def many(warehouse: Warehouse) -> list[Wheel]:
    return [
        warehouse.wheel(f"w{number}", files={f"w{number}/f{place}.py": f"{place}\n" * 500 for place in range(40)})
        for number in range(6)
    ]


def in_pool(warehouse: Warehouse, plan: WheelPlan, cache: LayerCache, jobs: int) -> list[CachedLayer]:
    with WorkerPool(jobs) as pool:
        return build_groups(plan.groups, plan.options, warehouse.store, cache, pool)


def test_same_bytes_with_any_number_of_processes_anywhere(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = many(warehouse)
    alone = frozenset(wheel.name for wheel in wheels)
    found = []
    for jobs in (0, 1, 3):
        cache = LayerCache(warehouse.root / f"cache{jobs}")
        plan = plan_wheels(wheels[:: -1 if jobs else 1], Options(alone=alone), warehouse.store, cache)
        before = os.umask(0o077 if jobs else 0o022)
        monkeypatch.setenv("TZ", "Asia/Kathmandu")
        monkeypatch.setenv("PYTHONHASHSEED", str(jobs))
        try:
            layers = (
                in_pool(warehouse, plan, cache, jobs)
                if jobs
                else [build_group(group, plan.options, warehouse.store, cache) for group in plan.groups]
            )
        finally:
            os.umask(before)
        found.append([(layer.key, layer.blob) for layer in layers])
    assert found[0] == found[1] == found[2]


def test_errors_come_through_processes(warehouse: Warehouse) -> None:
    wheel = warehouse.wheel("one", record=lambda rows: [(rows[0][0], record_hash(b"x"), rows[0][2]), *rows[1:]])
    plan, cache = planned(warehouse, [wheel])
    with pytest.raises(RefusedWheel) as caught:
        in_pool(warehouse, plan, cache, 1)
    assert (caught.value.exit_code, caught.value.where) == (1, wheel.file)
    assert "one/__init__.py" in str(caught.value) and caught.value.remedy


def test_parts_of_a_huge_wheel(warehouse: Warehouse) -> None:
    wheel = warehouse.wheel("one", files={f"one/{letter}.bin": letter * 1000 for letter in "abcdef"})
    plan, cache = planned(warehouse, [wheel])
    whole = members(build_group(plan.groups[0], plan.options, warehouse.store, cache))
    parts: dict[str, bytes | None] = {}
    for place in range(3):
        part = dataclasses.replace(
            plan.groups[0], group=WheelGroup("one", (wheel,), 0, (place, 3)), key=f"{place}" * 64
        )
        assert part.name == f"one-{place + 1}-of-3"
        found = members(build_group(part, plan.options, warehouse.store, cache))
        assert not {path for path, content in found.items() if content is not None} & parts.keys()
        parts |= {path: content for path, content in found.items() if content is not None}
    assert parts == {path: content for path, content in whole.items() if content is not None}


def test_progress_is_reported(warehouse: Warehouse) -> None:
    plan, cache = planned(warehouse, many(warehouse))
    counts: list[int] = []
    with WorkerPool(1) as pool:
        (layer,) = build_groups(
            plan.groups, plan.options, warehouse.store, cache, pool, {plan.groups[0].key: counts.append}
        )
    assert sum(counts) == layer.blob.tar_size


def test_group_plan_is_what_travels(warehouse: Warehouse) -> None:
    import pickle

    plan, _ = planned(warehouse, [warehouse.wheel("one")])
    copy: GroupPlan = pickle.loads(pickle.dumps(plan.groups[0]))  # noqa: S301
    assert copy == plan.groups[0]
