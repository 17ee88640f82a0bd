"""`build.py verify --registry`: all that is checked, the digest of a rebuild among it, and what is not a pass."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from slipway.cli import main as cli
from slipway.cli import verify
from tests.unit.registry.fake import running
from tests.unit.supply.test_supply import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:  # type: ignore[misc]
    monkeypatch.setenv("DOCKER_CONFIG", "/nowhere")
    with running() as server:
        made = Place(server, tmp_path / "image")
        made.push(None)
        yield made


def run(place: Place, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, str]]:
    code = cli.main(["verify", "--registry", str(place.repository.reference), "--json", *more])
    out = capsys.readouterr().out
    document, _ = json.JSONDecoder().raw_decode(out)
    return code, {one["name"]: one["state"] for one in document["checks"]}


def test_a_rebuild_has_to_give_the_digest(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def rebuild(request: object, _progress: object) -> SimpleNamespace:
        asked.append(request)
        return SimpleNamespace(digest=place.content.digest)

    monkeypatch.setattr(verify, "rebuild", rebuild)
    code, checks = run(place, capsys)
    assert (code, checks["build again"]) == (0, "right") and len(asked) == 1
    assert checks["signature"] == "not checked"
    monkeypatch.setattr(verify, "rebuild", lambda *_: SimpleNamespace(digest="sha256:" + "0" * 64))
    code, checks = run(place, capsys)
    assert (code, checks["build again"]) == (4, "wrong")


def test_papers_that_are_not_there_are_no_pass(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    listed = place.content.digest.replace(":", "-")
    del place.server.manifests[listed]
    code, checks = run(place, capsys, "--no-rebuild")
    assert code == 4 and checks["provenance"] == "not there"
