"""A layer cache in a real registry: an empty machine takes finished layers instead of making them, and no lie is taken.

The registry is Debian's docker-registry. It gets the layers of the cpu image as the default cache of this machine has
them; machines of the tests are folders for store and cache.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway import lock as locks
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.layers.entry import file_entry
from slipway.layers.remote import RemoteCache, tag
from slipway.layers.tar import write_tar
from slipway.progress import Progress
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.testing.registry import registry
from tests.container import builds

LABEL = "2.60-cpu-amd64"
SMALL = "share"
"""A layer of a few kB that takes no time to make: lies are told about it."""


@dataclass
class Shared:
    """The registry, and what was built where its layers come from.

    data: the registry's folder; locks: a copy of the locks with the list of layers
    """

    data: Path
    reference: str
    locks: Path
    digest: str
    layers: Sequence[dict[str, Any]]

    @property
    def list(self) -> Path:
        return self.locks / "layers" / f"{LABEL}.txt"

    def key(self, name: str) -> str:
        return next(str(layer["key"]) for layer in self.layers if layer["name"] == name)

    def without(self, *names: str) -> list[str]:
        return [str(layer["key"]) for layer in self.layers if layer["name"] not in names]

    def build(self, machine: Path, *words: str, locks: Path | None = None, verb: str = "build") -> builds.Ended:
        """Of the same image on a machine of that folder."""
        place = ["--cache", str(machine / "cache"), "--output", str(machine / "out")]
        shared = ["--locks", str(locks or self.locks), "--release", "2.60", "--variant", "cpu", "--arch", "amd64"]
        return builds.run(verb, *place, *shared, *words)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    copied = folder / "locks"
    copied.mkdir()
    shutil.copy(locks.FOLDER / f"{LABEL}.toml", copied)
    with registry(folder / "registry") as port:
        reference = f"127.0.0.1:{port}/team/layers"
        words = ["--locks", str(copied), "--output", str(folder / "out"), "--layer-cache", reference]
        image = ["--release", "2.60", "--variant", "cpu", "--arch", "amd64"]
        ended = builds.run("build", *image, *words, "--push-layer-cache", "--record-layers")
        assert ended.code == 0, ended.said
        layers = ended.document["layers"]
        yield Shared(folder / "registry" / "data", reference, copied, ended.document["digest"], layers)


@pytest.fixture
def unlisted(shared: Shared, tmp_path: Path) -> Path:
    """The same locks without a list of layers."""
    folder = tmp_path / "unlisted"
    folder.mkdir()
    shutil.copy(shared.locks / f"{LABEL}.toml", folder)
    return folder


def states(ended: builds.Ended) -> dict[str, str]:
    return {layer["name"]: layer["state"] for layer in ended.document["layers"]}


def test_an_empty_machine_takes_all_layers_and_downloads_nothing(shared: Shared, tmp_path: Path) -> None:
    ended = shared.build(tmp_path, "--store", str(tmp_path / "store"), "--layer-cache", shared.reference)
    assert ended.code == 0, ended.said
    assert ended.document["digest"] == shared.digest
    assert set(states(ended).values()) == {"cached"}
    stored = sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file())
    assert stored < 1_000_000, "only wheels that the driver makes itself"


def test_what_no_list_binds_is_made_here_unless_the_cache_is_trusted(
    shared: Shared, unlisted: Path, tmp_path: Path
) -> None:
    for machine, words, state in (("careful", (), "made"), ("trusting", ("--trust-cache",), "cached")):
        builds.cache_with(shared.without(SMALL), tmp_path / machine / "cache")
        words = ("--layer-cache", shared.reference, *words)
        ended = shared.build(tmp_path / machine, *words, locks=unlisted)
        assert ended.code == 0, ended.said
        assert (ended.document["digest"], states(ended)[SMALL]) == (shared.digest, state)
        assert ("stand in no committed list" in ended.said) == (state == "made")


def test_without_its_name_no_cache_is_asked(shared: Shared, tmp_path: Path) -> None:
    builds.cache_with(shared.without(SMALL), tmp_path / "cache")
    ended = shared.build(tmp_path)
    assert (ended.code, states(ended)[SMALL], ended.document["digest"]) == (0, "made", shared.digest)


def test_a_lying_list_is_exit_4(shared: Shared, unlisted: Path, tmp_path: Path) -> None:
    """Whether the layer is asked for, or is here already."""
    line = next(line for line in shared.list.read_text().splitlines() if line.endswith(f" {SMALL}"))
    key, digest, *rest = line.split()
    assert key == shared.key(SMALL)
    (unlisted / "layers").mkdir()
    lie = " ".join([key, "sha256:" + "0" * 64, *rest])
    (unlisted / "layers" / shared.list.name).write_text(shared.list.read_text().replace(line, lie))
    for machine, left_out in (("asks", SMALL), ("has", "")):
        builds.cache_with(shared.without(left_out), tmp_path / machine / "cache")
        ended = shared.build(tmp_path / machine, "--layer-cache", shared.reference, locks=unlisted)
        assert ended.code == 4, ended.said
        assert digest in ended.said and "0" * 64 in ended.said
        assert not (tmp_path / machine / "out" / "index.json").exists()


def blob_file(shared: Shared, digest: str) -> Path:
    hexadecimal = digest.removeprefix("sha256:")
    return shared.data / "docker/registry/v2/blobs/sha256" / hexadecimal[:2] / hexadecimal / "data"


@pytest.mark.parametrize("trust", [False, True])
def test_a_registry_that_changed_a_blob_is_exit_4(shared: Shared, tmp_path: Path, trust: bool) -> None:
    digest = next(layer["digest"] for layer in shared.layers if layer["name"] == SMALL)
    file = blob_file(shared, digest)
    right = file.read_bytes()
    builds.cache_with(shared.without(SMALL), tmp_path / "cache")
    try:
        file.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
        words = ("--trust-cache",) if trust else ()
        ended = shared.build(tmp_path, "--layer-cache", shared.reference, *words)
    finally:
        file.write_bytes(right)
    assert ended.code == 4, ended.said
    assert "the layer cache has something else" in ended.said
    assert LayerCache(tmp_path / "cache").get(shared.key(SMALL)) is None


@pytest.fixture
def evil(shared: Shared, tmp_path: Path) -> Iterator[CachedLayer]:
    """Somebody who may write to the cache has put another layer under the key."""
    key = shared.key(SMALL)
    repository = Repository(parse_reference(shared.reference), Http())
    right = repository.manifest(tag(key))
    entry = file_entry("opt/slipway/entrypoint", b"#!/bin/sh\n# evil\n", mode=0o755)
    layer = LayerCache(tmp_path / "evil").build(key, lambda out: write_tar([entry], out))
    file = shared.data / "docker/registry/v2/repositories/team/layers/_manifests/tags" / tag(key)
    shutil.rmtree(file)
    RemoteCache(repository).put(layer)
    assert layer.blob.digest.encode() in repository.manifest(tag(key)).content
    yield layer
    repository.put_manifest(right.content, right.media_type, tag(key))


def test_another_layer_under_the_key_is_exit_4(shared: Shared, tmp_path: Path, evil: CachedLayer) -> None:
    builds.cache_with(shared.without(SMALL), tmp_path / "cache")
    ended = shared.build(tmp_path, "--layer-cache", shared.reference)
    assert ended.code == 4, ended.said
    assert evil.blob.digest in ended.said


def test_trust_takes_it_and_the_spot_check_finds_it(
    shared: Shared, unlisted: Path, tmp_path: Path, evil: CachedLayer
) -> None:
    """What --trust-cache means: who writes there decides. Making a layer again tells."""
    repository = Repository(parse_reference(shared.reference), Http())
    cache = LayerCache(tmp_path / "cache")
    assert RemoteCache(repository, trust=True).take(evil.key, cache, Progress()) is not None
    ended = shared.build(tmp_path, "--one-layer", locks=unlisted, verb="verify")
    assert ended.code == 4, ended.said
    assert evil.blob.digest in ended.said and SMALL in ended.said
    assert cache.get(evil.key) is None, "it was dropped"


def test_the_spot_check_makes_one_cached_layer_again(shared: Shared, tmp_path: Path) -> None:
    able = [layer["name"] for layer in shared.layers if layer["name"] not in builds.SYSTEM]
    builds.cache_with(shared.without(*builds.SYSTEM), tmp_path / "cache")
    ended = shared.build(tmp_path, "--one-layer", verb="verify")
    assert ended.code == 0, ended.said
    assert ended.document["same"] and ended.document["layer"] in able
    listed = {line.split()[-1]: line.split()[1] for line in shared.list.read_text().splitlines()[1:]}
    assert listed[ended.document["layer"]] == ended.document["made"]


def test_a_pull_requests_build_may_not_write(shared: Shared, tmp_path: Path) -> None:
    ended = builds.run(
        *("build", "--locks", str(shared.locks), "--cache", str(tmp_path), "--layer-cache", shared.reference),
        "--push-layer-cache",
        env={"GITHUB_EVENT_NAME": "pull_request"},
    )
    assert ended.code == 2
    assert "may not write" in json.dumps(ended.document) + ended.said
