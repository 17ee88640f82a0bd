"""A layer cache in a registry: what is taken, what is not, and who may write."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.errors import InvalidInput, PushFailed, UsageError, WrongArtifact
from slipway.layers import index_bundle, records
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.entry import file_entry
from slipway.layers.remote import RemoteCache, tag
from slipway.layers.remote_options import add_layer_cache, proposed, remote_cache
from slipway.layers.tar import write_tar
from slipway.lock.model import Wheel
from slipway.pins.load import load
from slipway.progress import Progress
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.sources.retry import RetryPolicy
from slipway.wheel.index import Indexes, WheelIndex
from slipway.wheel.paths import Venv
from tests.unit.registry.fake import Registry, running

KEY = "a" * 64


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


def repository(registry: Registry) -> Repository:
    http = Http(policy=RetryPolicy(tries=2, first=0.001, most=0.002), environ={})
    return Repository(parse_reference(f"{registry.host}/team/cache"), http, {"DOCKER_CONFIG": "/nowhere"})


def made(folder: Path, content: bytes = b"hello") -> CachedLayer:
    cache = LayerCache(folder)
    return cache.build(KEY, lambda out: write_tar([file_entry("opt/x", content)], out))


def known(layer: CachedLayer) -> dict[str, records.Known]:
    return {KEY: records.Known(layer.blob.digest, layer.blob.diff_id, layer.blob.tar_size, "x")}


def test_a_layer_travels_and_is_sent_once(registry: Registry, tmp_path: Path) -> None:
    layer = made(tmp_path / "here")
    assert RemoteCache(repository(registry)).put(layer)
    assert not RemoteCache(repository(registry)).put(layer)
    there = LayerCache(tmp_path / "there")
    taken = RemoteCache(repository(registry), known(layer)).take(KEY, there, Progress())
    assert taken is not None
    assert (taken.blob, taken.path.read_bytes()) == (layer.blob, layer.path.read_bytes())
    assert there.get(KEY, verify=True) == taken


def test_what_no_list_knows_is_taken_only_on_trust(registry: Registry, tmp_path: Path) -> None:
    RemoteCache(repository(registry)).put(made(tmp_path / "here"))
    careful = RemoteCache(repository(registry))
    assert careful.take(KEY, LayerCache(tmp_path / "there"), Progress()) is None
    assert careful.refused == [KEY]
    assert RemoteCache(repository(registry), trust=True).take(KEY, LayerCache(tmp_path / "there"), Progress())


@pytest.mark.parametrize("trust", [False, True])
def test_other_bytes_than_the_list_says_are_never_taken(registry: Registry, tmp_path: Path, trust: bool) -> None:
    RemoteCache(repository(registry)).put(made(tmp_path / "evil", b"other"))
    bound = known(made(tmp_path / "here"))
    with pytest.raises(WrongArtifact, match="something else than layer"):
        RemoteCache(repository(registry), bound, trust).take(KEY, LayerCache(tmp_path / "x"), Progress())
    assert LayerCache(tmp_path / "x").get(KEY) is None


@pytest.mark.parametrize("trust", [False, True])
def test_a_registry_whose_blob_is_another_is_exit_4(registry: Registry, tmp_path: Path, trust: bool) -> None:
    layer = made(tmp_path / "here")
    RemoteCache(repository(registry)).put(layer)
    registry.blobs[layer.blob.digest] = b"damaged"
    bound = {} if trust else known(layer)
    with pytest.raises(WrongArtifact) as caught:
        RemoteCache(repository(registry), bound, trust).take(KEY, LayerCache(tmp_path / "x"), Progress())
    assert caught.value.exit_code == 4
    assert LayerCache(tmp_path / "x").get(KEY) is None


def test_layers_that_are_here_are_held_against_the_list(tmp_path: Path) -> None:
    layer, other = made(tmp_path / "here"), made(tmp_path / "other", b"other")
    records.hold(known(layer), [("x", KEY, layer.blob), ("new", "b" * 64, other.blob)], "list")
    with pytest.raises(WrongArtifact, match=f"{other.blob.digest} here, {layer.blob.digest} in the list"):
        records.hold(known(layer), [("x", KEY, other.blob)], "list")


def test_another_layers_record_under_a_tag_is_not_taken(registry: Registry, tmp_path: Path) -> None:
    RemoteCache(repository(registry)).put(made(tmp_path / "here"))
    registry.manifests[tag("b" * 64)] = registry.manifests[tag(KEY)]
    remote = RemoteCache(repository(registry), trust=True)
    assert remote.take("b" * 64, LayerCache(tmp_path / "there"), Progress()) is None


def test_a_cache_that_does_not_answer_costs_nothing_but_a_push_fails(tmp_path: Path) -> None:
    with running() as server:
        gone = repository(server)
    assert RemoteCache(gone, trust=True).take(KEY, LayerCache(tmp_path), Progress()) is None
    with pytest.raises(PushFailed):
        RemoteCache(gone).put(made(tmp_path / "here"))


def test_lists_are_sorted_read_back_and_strict(tmp_path: Path) -> None:
    layer = made(tmp_path / "cache")
    file = records.path(tmp_path, "2.60-cpu-amd64")
    records.write(file, [("zebra", "b" * 64, layer.blob), ("ant", KEY, layer.blob)])
    assert [line.split()[-1] for line in file.read_text().splitlines()[1:]] == ["ant", "zebra"]
    assert records.read(file)[KEY] == records.Known(layer.blob.digest, layer.blob.diff_id, layer.blob.tar_size, "ant")
    assert records.agrees(records.read(file), KEY, layer.blob) is True
    assert records.agrees({}, KEY, layer.blob) is None
    file.write_text(file.read_text() + "nonsense\n")
    with pytest.raises(InvalidInput, match="4: not `key"):
        records.read(file)
    assert records.read(tmp_path / "none") == {}


def test_indexes_of_wheels_travel_as_one(tmp_path: Path) -> None:
    wheels = [Wheel(name, "1", f"{name}-1-py3-none-any.whl", 1, name * 64) for name in ("a", "b")]
    here = Indexes(tmp_path / "here", Venv())
    there = Indexes(tmp_path / "there", Venv())
    cache = LayerCache(tmp_path / "here")
    here.put(wheels[0], WheelIndex({"opt/a": "sha256=x 644"}))
    assert index_bundle.bundle(wheels, here, cache) is None
    here.put(wheels[1], WheelIndex({"opt/b": "sha256=y 644"}))
    made = index_bundle.bundle(wheels, here, cache)
    assert made is not None
    assert made.key == index_bundle.bundle_key(reversed(wheels), there)
    assert index_bundle.unbundle(made.path, wheels, there) == 2
    assert there.get(wheels[1]) == here.get(wheels[1])
    (tmp_path / "bad").write_bytes(b"no zstd")
    assert index_bundle.unbundle(tmp_path / "bad", wheels, there) == 0


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_layer_cache(parser)
    return parser.parse_args(words)


def test_a_pull_request_may_read_and_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = load(Path(__file__).parents[3] / "versions.toml").select()
    monkeypatch.setenv("CODEBUILD_WEBHOOK_EVENT", "PULL_REQUEST_UPDATED")
    assert remote_cache(options("--layer-cache", "r.example/x"), selection, Progress()) is not None
    with pytest.raises(UsageError, match="may not write"):
        remote_cache(options("--layer-cache", "r.example/x", "--push-layer-cache"), selection, Progress())
    assert proposed({"CODEBUILD_WEBHOOK_EVENT": "PUSH", "GITHUB_EVENT_NAME": "push"}) == ""


def test_without_its_name_no_cache_is_used() -> None:
    selection = load(Path(__file__).parents[3] / "versions.toml").select()
    assert remote_cache(options(), selection, Progress()) is None
    for word in ("--trust-cache", "--push-layer-cache"):
        with pytest.raises(UsageError, match="need --layer-cache"):
            remote_cache(options(word), selection, Progress())
    assert json.dumps(vars(options()))


def test_committed_lists_can_be_read_and_belong_to_locks() -> None:
    folder = Path(__file__).parents[3] / "locks"
    lists = sorted((folder / "layers").glob("*.txt"))
    assert lists
    for file in lists:
        assert (folder / f"{file.stem}.toml").exists()
        names = {known.name for known in records.read(file).values()}
        assert {"debian", "fabric", "ldcache", index_bundle.KIND} <= names
