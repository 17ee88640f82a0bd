"""Servers that are no registries, and answers that nobody expects: told in a sentence, at once, and never believed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from slipway.cli import main as cli
from slipway.registry.client import Repository
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.sources.outcome import Absent, NotHad, Unreachable
from slipway.supply import cosign
from slipway.testing.layouts import layout, real_labels
from tests.unit.registry.fake import Registry

AT_ONCE = 5.0
"""Seconds: far below the second wait of a real push's retries."""


def run(*words: object) -> tuple[int, float]:
    begun = time.monotonic()
    return cli.main([str(word) for word in words]), time.monotonic() - begun


@pytest.fixture(autouse=True)
def no_login(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(config))


@pytest.mark.parametrize("instead", ["page", "/login"])
def test_a_server_that_is_no_registry(
    registry: Registry, tmp_path: Path, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.instead = instead
    layout(tmp_path / "image", [10], real_labels())
    said = "is this a registry?" if instead == "page" else "too many redirects"
    for words, code in (
        (("push", tmp_path / "image", "--registry", registry.host, "--attest", "none"), 5),
        (("verify", "--no-rebuild", "--registry", f"{registry.host}/x:1"), 3),
        (("copy", f"{registry.host}/x:1", f"{registry.host}/y"), 3),
    ):
        ended, seconds = run(*words)
        assert (ended, said in capsys.readouterr().err) == (code, True)
        assert seconds < AT_ONCE


def test_http_where_tls_was_meant(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    ended, seconds = run("verify", "--no-rebuild", "--registry", f"https://{registry.host}/x:1")
    assert ended == 3 and seconds < AT_ONCE
    assert "there is no TLS at this address" in capsys.readouterr().err


def test_something_that_is_no_image(
    repository: Repository, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in (b"{}", b'{"config": 1}', b'{"config": {"digest": "sha256:0"}}', b'{"fsLayers": []}'):
        repository.send_manifest(content, "application/vnd.example", "1")
        assert cli.main(["verify", "--no-rebuild", "--registry", str(repository.reference)]) in (2, 4)
        assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"[]", b"1", b"{", b"<html>", b"\xff"])
def test_a_manifest_is_an_object(repository: Repository, content: bytes, registry: Registry) -> None:
    registry.manifests["1"] = ("text/plain", content)
    with pytest.raises(Unreachable, match="text/plain: is this a registry"):
        repository.manifest()


@pytest.mark.parametrize("layers", [None, {}, [1, {}, {"digest": 7}]])
def test_signatures_that_are_none(repository: Repository, layers: object) -> None:
    repository.put_manifest(json.dumps({"layers": layers}).encode(), "application/vnd.example", "x.sig")
    assert cosign.layers(repository, "x.sig") == []


def test_what_a_server_says_does_not_steer_the_terminal(repository: Repository, registry: Registry) -> None:
    registry.colour = "\x1b[31m\x07\n"
    with pytest.raises(Absent) as error:
        repository.manifest()
    assert error.value.reason == "answered 404: manifest unknown[31m"


def test_nobody_listens() -> None:
    begun = time.monotonic()
    with pytest.raises(NotHad, match="3 tries"):
        Repository(parse_reference("127.0.0.1:9/x"), Http(environ={})).manifest()
    assert time.monotonic() - begun < 30
