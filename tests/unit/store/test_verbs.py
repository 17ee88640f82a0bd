"""The verbs `fetch` and `store`: options in, exit code, one JSON document and changed folders out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.cli import store as store_verb
from slipway.cli.main import main
from slipway.lock import file
from slipway.sources import choose
from slipway.sources.pip import PipConfig
from slipway.sources.settings import HttpSettings
from slipway.store import Store
from tests.unit.store.server import Server
from tests.unit.store.test_fetch import ALL_AND_SOURCE, a_lock, publish


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose.pip, "ask", lambda **_options: PipConfig())
    monkeypatch.setattr(choose.apt, "ask_config", HttpSettings)
    for name in ("http_proxy", "HTTP_PROXY", "SLIPWAY_REGISTRY_COPY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    path = tmp_path / "lock.toml"
    path.write_text(file.dump(a_lock(*(artifact for artifact, _content in ALL_AND_SOURCE))))
    return path


def fetch(lock_file: Path, store: Store, server: Server, *more: str) -> int:
    mirrors = [f"wheels={server.url}/simple", f"debian={server.url}/debian"]
    options = [word for mirror in mirrors for word in ("--mirror", mirror)]
    return main(["fetch", "--lock", str(lock_file), "--store", str(store.root), *options, *more])


def test_fetch_list_verify_prune(
    lock_file: Path, store: Store, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for artifact, content in ALL_AND_SOURCE:
        publish(server, artifact, content)
    at = ["--store", str(store.root)]
    assert fetch(lock_file, store, server, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["wanted"], said["fetched"], said["present"]) == (4, 4, 0)

    assert main(["store", "list", *at, "--json"]) == 0
    names = {row["sha256"] for row in json.loads(capsys.readouterr().out)["files"]}
    assert names == {artifact.sha256 for artifact, _content in ALL_AND_SOURCE}

    assert main(["store", "verify", *at]) == 0
    damaged = store.path(ALL_AND_SOURCE[0][0].sha256)
    damaged.chmod(0o644)
    damaged.write_bytes(b"damage")
    capsys.readouterr()
    assert main(["store", "verify", *at, "--json"]) == 4
    assert list(json.loads(capsys.readouterr().out)["damaged"]) == [damaged.name]
    assert fetch(lock_file, store, server) == 0
    assert main(["store", "verify", *at]) == 0

    kept = ["--keep-lock", str(lock_file)]
    assert main(["store", "prune", *at, *kept]) == 0
    assert damaged.exists()
    assert main(["store", "prune", *at, "--dry-run"]) == 0
    assert damaged.exists()
    assert main(["store", "prune", *at]) == 0
    assert not damaged.exists()


def test_gone_is_exit_4_with_one_document(
    lock_file: Path, store: Store, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(lock_file, store, server, "--json") == 4
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert {finding["kind"] for finding in document["findings"]} == {"gone"}
    assert len(document["findings"]) == 4
    assert "lock --upgrade debian" in said.err and "pin another libfabric" in said.err


@pytest.mark.parametrize(
    "options",
    [
        ["--mirror", "whels=https://a.example.com"],
        ["--registry-copy", "no reference"],
        ["--push-copy", "no reference"],
        ["--downloads", "0"],
        ["--lock", "/is/not/there.toml"],
    ],
)
def test_wrong_usage_is_exit_2(store: Store, options: list[str]) -> None:
    assert main(["fetch", "--store", str(store.root), *options]) == 2
    assert not store.root.exists()


def test_ages_and_sizes() -> None:
    assert store_verb.age("12h") == 43_200 and store_verb.age("30d") == 2_592_000
    assert store_verb.size("1.5GB") == 1_500_000_000 and store_verb.size("500 MB") == 500_000_000


@pytest.mark.parametrize("options", [["--older-than", "soon"], ["--max-size", "big"], ["--max-size", "-1GB"]])
def test_ages_and_sizes_that_are_none(store: Store, options: list[str]) -> None:
    assert main(["store", "prune", "--store", str(store.root), *options]) == 2


def test_prunes_options_belong_to_prune(store: Store) -> None:
    assert main(["store", "list", "--store", str(store.root), "--older-than", "1d"]) == 2
