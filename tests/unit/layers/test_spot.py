"""One cached layer is made again: a wrong one is found."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from slipway.build import Context
from slipway.errors import UsageError
from slipway.layers import spot
from slipway.layers.cache import LayerCache
from slipway.layers.pool import WorkerPool
from slipway.plan import LayerRecipe, PlannedLayer
from slipway.progress import Progress
from slipway.store import Store


def layer(name: str, key: str, content: bytes, needs: tuple[str, ...] = ()) -> LayerRecipe:
    return LayerRecipe(name, "files", key, {}, (), lambda c: c.cache.build(key, lambda out: out.write(content)), needs)


@pytest.mark.parametrize(("there", "same"), [(b"right", True), (b"wrong", False)])
def test_a_layer_is_compared_with_what_its_key_gives(tmp_path: Path, there: bytes, same: bool) -> None:
    cache = LayerCache(tmp_path)
    cached = cache.build("a" * 64, lambda out: out.write(there))
    chosen = PlannedLayer(layer("one", "a" * 64, b"right"), cached, "")
    with WorkerPool(1) as pool:
        found = spot.check(chosen, Context(Store(tmp_path / "store"), cache, pool, Progress(), 1))
    assert found.same is same
    assert cache.get("a" * 64) == cached
    assert not list(tmp_path.glob("spot-*"))


def test_every_cached_layer_that_stands_alone_may_be_chosen(tmp_path: Path) -> None:
    cached = LayerCache(tmp_path).build("a" * 64, lambda out: out.write(b"x"))
    layers = [
        PlannedLayer(layer("a", "a" * 64, b"x"), cached, ""),
        PlannedLayer(layer("b", "b" * 64, b"x"), cached, ""),
        PlannedLayer(layer("over others", "c" * 64, b"x", ("a",)), cached, ""),
        PlannedLayer(layer("missing", "d" * 64, b"x"), None, ""),
    ]
    chosen = {spot.choose(layers, random.Random(seed)).recipe.name for seed in range(50)}  # noqa: S311
    assert chosen == {"a", "b"}
    with pytest.raises(UsageError, match="no layer of this image"):
        spot.choose(layers[2:])
