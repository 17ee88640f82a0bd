"""The verbs gate and diff: arguments in, exit code and one document out."""

from __future__ import annotations

import json
from pathlib import Path

import image_builder as make
import pytest

from slipway.cli.main import main

GOOD: dict[str, make.Item | bytes | str | None] = {"usr/bin/x": b"x"}
BAD: dict[str, make.Item | bytes | str | None] = {"usr/bin/x": make.Item(b"x", mode=0o4755)}


@pytest.fixture
def cache(tmp_path: Path) -> list[str]:
    return ["--cache", str(tmp_path / "cache")]


def test_a_good_image(tmp_path: Path, cache: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = make.layout(tmp_path / "a", [GOOD])
    assert main(["gate", str(folder), *cache]) == 0
    captured = capsys.readouterr()
    assert "ok  setuid" in captured.out
    assert "no label says which pins" in captured.err
    assert main(["gate", str(folder), "--json", *cache]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_a_bad_image(tmp_path: Path, cache: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = make.layout(tmp_path / "a", [BAD])
    assert main(["gate", str(folder), *cache]) == 6
    captured = capsys.readouterr()
    assert "NO  setuid" in captured.out
    assert "usr/bin/x" in captured.err
    assert main(["gate", str(folder), "--json", *cache]) == 6
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 6
    assert document["report"]["ok"] is False


def test_labels_choose_the_pins(tmp_path: Path, cache: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"io.slipway.release": "2.60", "io.slipway.variant": "cpu"}
    folder = make.layout(tmp_path / "a", [GOOD], config={"Labels": labels})
    assert main(["gate", str(folder), *cache]) == 0
    assert "no label" not in capsys.readouterr().err
    assert main(["gate", str(folder), "--release", "1.0", *cache]) == 2
    assert "no release called '1.0'" in capsys.readouterr().err


def test_no_layout(tmp_path: Path, cache: list[str]) -> None:
    assert main(["gate", str(tmp_path / "nothing"), *cache]) == 2
    assert main(["diff", str(tmp_path), str(tmp_path), *cache]) == 2


def test_a_damaged_layer(tmp_path: Path, cache: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = make.layout(tmp_path / "a", [GOOD])
    biggest = next(path for path in (folder / "blobs" / "sha256").iterdir() if b"usr/bin/x" in path.read_bytes()[:600])
    biggest.write_bytes(biggest.read_bytes()[:-1] + b"!")
    assert main(["gate", str(folder), *cache]) == 4
    assert "not the one that the image names" in capsys.readouterr().err


def test_diff(tmp_path: Path, cache: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    one, two = str(make.layout(tmp_path / "a", [GOOD])), str(make.layout(tmp_path / "b", [BAD]))
    assert main(["diff", one, two, "--files", *cache]) == 0
    assert "m usr/bin/x  (644 → 4755)" in capsys.readouterr().out
    assert main(["diff", one, two, "--json", *cache]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is False
    assert main(["diff", one, one, *cache]) == 0
    assert capsys.readouterr().out.startswith("one image")
    assert main(["diff", one, two, "--markdown", *cache]) == 0
    assert "### Layers" in capsys.readouterr().out
    assert main(["diff", one, two, "--markdown", "--json", *cache]) == 2
