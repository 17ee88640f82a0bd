"""`build.py build --push --variant cpu,cuda`: each image is whole in the registry or absent, and it is said which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.assemble import Request
from slipway.cli import build, common
from slipway.cli import main as cli
from slipway.errors import BuildFailed
from slipway.inspect.layout import open_layout
from slipway.push.tags import image_tags
from slipway.testing.layouts import layout, real_labels
from tests.unit.registry.fake import Registry, running

LABELS = {variant: real_labels(variant) for variant in ("cpu", "cuda")}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images go to a folder of the test, and no login is read."""
    for name in ("versions.toml", "locks", "docker", "serve_app"):
        (tmp_path / name).symlink_to(common.ROOT / name)
    monkeypatch.setattr(common, "ROOT", tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker-config"))


def small(request: Request, _progress: object = None) -> SimpleNamespace:
    """An image of two small layers in place of the real one, with its labels."""
    variant = request.selection.variant
    layout(request.output, [2_000, 300], LABELS[variant], seed=len(variant))
    return SimpleNamespace(folder=request.output, layers=(), made=(), size=0, reference=variant, digest="")


def run(registry: Registry, *more: str) -> int:
    words = ["build", "--variant", "cpu,cuda", "--push", "--registry", registry.host, "--attest", "none", "--json"]
    return cli.main([*words, *more])


def tags(variant: str) -> tuple[str, ...]:
    return image_tags(LABELS[variant], "amd64").all


def test_all_are_pushed(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "assemble", small)
    assert run(registry) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)["images"]] == ["whole", "whole"]
    assert {*tags("cpu"), *tags("cuda")} <= set(registry.manifests)


def test_one_that_fails_leaves_the_other_whole(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def damaged(request: Request, progress: object) -> SimpleNamespace:
        image = small(request, progress)
        if request.selection.variant == "cpu":
            blob = open_layout(image.folder).layers[0].path
            blob.write_bytes(bytes(blob.stat().st_size))
        return image

    monkeypatch.setattr(build, "assemble", damaged)
    assert run(registry, "--digest-file", str(tmp_path / "pushed.json")) == 5
    seen = capsys.readouterr()
    assert "2.60-cpu-amd64: not there" in seen.err and "2.60-cuda-amd64: whole" in seen.err
    assert [row["state"] for row in json.loads(seen.out)["images"]] == ["absent", "whole"]
    assert set(tags("cuda")) <= set(registry.manifests) and not set(tags("cpu")) & set(registry.manifests)
    [only] = json.loads((tmp_path / "pushed.json").read_text())["images"]
    assert only["name"] == "2.60-cuda-amd64"
    monkeypatch.setattr(build, "assemble", small)
    assert run(registry) == 0
    sent = {row["name"]: row["bytes_sent"] for row in json.loads(capsys.readouterr().out)["images"]}
    assert sent["2.60-cuda-amd64"] == 0 and sent["2.60-cpu-amd64"] > 0


def test_a_build_that_fails_pushes_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(request: Request, progress: object) -> SimpleNamespace:
        if request.selection.variant == "cuda":
            raise BuildFailed("it did not work")
        return small(request, progress)

    monkeypatch.setattr(build, "assemble", fails)
    assert run(registry) == 1
    assert "it did not work" in capsys.readouterr().err
    assert not registry.seen
