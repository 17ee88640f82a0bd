"""A lock's artifacts pushed as one, and fetched from there when no mirror has them any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.errors import MissingError, PushFailed
from slipway.lock.model import Lock, Wheel
from slipway.registry.copy import ARTIFACT_TYPE, copy_manifest, push_artifacts
from slipway.sources import choose
from slipway.sources.http import Http
from slipway.sources.pip import PipConfig
from slipway.store import Store
from slipway.store.fetch import FetchOptions, fetch
from slipway.store.report import ArtifactsWrong
from tests.unit.registry.conftest import FAST, log_in
from tests.unit.registry.fake import Registry
from tests.unit.store.test_fetch import a_wheel

CONTENTS = [b"one" * 1000, b"two" * 1000, b""]


@pytest.fixture
def lock() -> Lock:
    wheels = [a_wheel(content, f"thing{n}") for n, content in enumerate(CONTENTS)]
    made = Wheel("made", "1", "made.whl", 1, "0" * 64, made=True)
    return Lock("2.60", "cpu", "amd64", "", (*wheels, made))


@pytest.fixture
def full(tmp_path: Path) -> Store:
    store = Store(tmp_path / "full")
    for content in CONTENTS:
        store.add_bytes(content)
    return store


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch, config: Path) -> None:
    monkeypatch.setattr(choose.pip, "ask", lambda **_options: PipConfig())
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


def quick() -> Http:
    return Http(policy=FAST, environ={})


@pytest.mark.parametrize("auth", ["", "basic", "bearer"])
def test_there_and_back(lock: Lock, full: Store, registry: Registry, tmp_path: Path, config: Path, auth: str) -> None:
    registry.auth = auth
    log_in(config, registry.host)
    reference = f"{registry.host}/team/artifacts:2.60"
    digest = push_artifacts(lock, full, reference, http=quick())
    kind, content = registry.manifests["2.60"]
    document = json.loads(content)
    assert document["artifactType"] == ARTIFACT_TYPE and kind == document["mediaType"]
    assert [layer["digest"] for layer in document["layers"]] == [f"sha256:{a.sha256}" for a in lock.downloads]
    titles = [layer["annotations"]["org.opencontainers.image.title"] for layer in document["layers"]]
    assert titles == [artifact.file for artifact in lock.downloads]
    assert {layer["digest"] for layer in document["layers"]} <= set(registry.blobs)
    received = registry.received
    assert push_artifacts(lock, full, reference, http=quick()) == digest
    assert registry.received == received

    other = Store(tmp_path / "empty")
    result = fetch(lock, other, FetchOptions(registry_copy=reference, policy=FAST))
    assert result.fetched == len(CONTENTS)
    assert result.origins == {f"registry copy {reference}": len(CONTENTS)}
    for artifact in lock.downloads:
        assert other.checked(artifact)


def test_the_manifest_is_a_function_of_the_lock(lock: Lock) -> None:
    assert copy_manifest(lock) == copy_manifest(lock)


def test_what_the_copy_lacks_is_gone(lock: Lock, registry: Registry, tmp_path: Path) -> None:
    options = FetchOptions(registry_copy=f"{registry.host}/team/artifacts", policy=FAST)
    with pytest.raises(ArtifactsWrong) as caught:
        fetch(lock, Store(tmp_path / "empty"), options)
    assert "blob unknown" in str(caught.value)


def test_only_a_full_store_is_pushed(lock: Lock, registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="build.py fetch"):
        push_artifacts(lock, Store(tmp_path / "empty"), f"{registry.host}/x", http=quick())
    assert registry.seen == []


def test_a_push_that_fails_says_so(lock: Lock, full: Store, registry: Registry) -> None:
    registry.auth = "bearer"
    with pytest.raises(PushFailed) as caught:
        push_artifacts(lock, full, f"{registry.host}/x", http=quick())
    assert caught.value.exit_code == 5
    assert "who are you" in str(caught.value) and "log in" in str(caught.value)


def test_the_tag_comes_last(lock: Lock, full: Store, registry: Registry) -> None:
    registry.faults["PUT manifests"] = [403]
    with pytest.raises(PushFailed):
        push_artifacts(lock, full, f"{registry.host}/x:1", http=quick())
    assert len(registry.blobs) == len(CONTENTS) + 1
    assert "1" not in registry.manifests
    push_artifacts(lock, full, f"{registry.host}/x:1", http=quick())
    assert "1" in registry.manifests
