"""What push, build --push, sign, copy and sbom refuse before they do anything, and what a bill's verb prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.cli import main as cli
from slipway.testing.layouts import layout, real_labels


@pytest.fixture(autouse=True)
def no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLIPWAY_REGISTRY", raising=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["build", "--push"], "no registry"),
        (["build", "--push", "--registry", "h.example.com/x:tag"], "more than a registry"),
        (["build", "--variant", "cpu,cuda", "--output", "x"], "--output names one folder"),
        (["build", "--variant", "cpu,nothing"], "'nothing'"),
        (["push", "nowhere", "--registry", "h.example.com"], "no OCI layout"),
        (["push", "--finish", "nowhere.json"], "no --digest-file"),
        (["sign", "not a reference", "--key", "x"], "not a reference"),
        (["copy", "h.example.com/a:1", "h.example.com/b@sha256:" + "0" * 64], "can't name a digest"),
        (["verify", "--key", "x"], "belong to --registry"),
        (["sbom", "--variant", "nothing"], "'nothing'"),
    ],
)
def test_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err


def test_a_development_image_may_not_ask_for_a_production_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {**real_labels(), "io.slipway.version.cuda": "13.0.96", "io.slipway.fabric": "source"}
    layout(tmp_path / "image", [10], labels)
    words = ["push", str(tmp_path / "image"), "--registry", "127.0.0.1:9", "--attest", "none", "--tag", "2.60-cuda"]
    assert cli.main(words) == 6
    assert "fabric" in capsys.readouterr().err


def test_an_image_of_another_lock_is_not_described_by_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout(tmp_path / "image", [10], {**real_labels(), "io.slipway.lock": "sha256:" + "0" * 64})
    assert cli.main(["push", str(tmp_path / "image"), "--registry", "127.0.0.1:9"]) == 2
    assert "this checkout has" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "key"), [("spdx", "packages"), ("cyclonedx", "components")])
def test_a_bill_is_written(tmp_path: Path, form: str, key: str) -> None:
    target = tmp_path / "bill.json"
    assert cli.main(["sbom", "--format", form, "--output", str(target)]) == 0
    first = target.read_bytes()
    assert len(json.loads(first)[key]) > 300
    assert cli.main(["sbom", "--format", form, "--output", str(target)]) == 0
    assert target.read_bytes() == first


def test_what_syft_did_not_find(tmp_path: Path) -> None:
    (tmp_path / "syft.json").write_text('{"artifacts": []}')
    assert cli.main(["sbom", "--syft", str(tmp_path / "syft.json")]) == 6
