"""Two ways, one tree: what BuildKit and uv install from the lock is what the assembled image holds, file by file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.assemble import Request, assemble, read_lock
from slipway.cli.common import ROOT, cache_home
from slipway.engine.model import Engine
from slipway.inspect.image import read_image
from slipway.layers.cache import LayerCache
from slipway.pins import load
from slipway.progress import Progress
from slipway.reference import build, compare
from slipway.store import Store
from slipway.store.fetch import FetchOptions
from tests.container.builds import default_cache

WANTED = "SLIPWAY_TEST_REFERENCE"


def test_the_reference_build_gives_the_same_tree(engine: Engine, tmp_path: Path) -> None:
    if not os.environ.get(WANTED):
        pytest.skip(f"minutes of BuildKit: set {WANTED}=1")
    if engine.docker("buildx", "version", check=False).code != 0:
        pytest.skip("docker buildx is not installed")
    selection = load(ROOT / "versions.toml").select()
    store, cache = Store(cache_home() / "store"), LayerCache(default_cache())
    request = Request(selection, read_lock(selection), ROOT, store, cache, tmp_path / "ours", FetchOptions(), 2)
    assemble(request, Progress())
    ours = compare.of_image(read_image(tmp_path / "ours", cache=cache.root / "inspect" / "layers"))
    tar = tmp_path / "theirs.tar"
    build.build(request, engine, f"type=tar,dest={tar}", Progress())
    theirs = compare.of_tar(tar)
    assert len(theirs) > 20_000
    assert compare.differences(ours, theirs) == {}
