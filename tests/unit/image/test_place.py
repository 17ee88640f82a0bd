"""Where a build may write: found out before it begins, and nothing of others is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slipway.cli import main as cli
from slipway.errors import MissingError, UsageError
from slipway.image.place import check_output, check_writable
from slipway.testing.layouts import layout, real_labels


def test_an_empty_folder_and_one_that_is_not_there(tmp_path: Path) -> None:
    for folder in (tmp_path / "empty", tmp_path / "new" / "deep"):
        check_output(folder)
        assert folder.is_dir()


def test_an_older_image_may_be_replaced_and_half_of_one(tmp_path: Path) -> None:
    layout(tmp_path / "image", [10], real_labels())
    check_output(tmp_path / "image")
    (tmp_path / "image" / "index.json").write_text("{")
    (tmp_path / "image" / ".index.json.abc.part").write_text("{")
    (tmp_path / "image" / "lost+found").mkdir()
    check_output(tmp_path / "image")


def test_a_folder_with_other_things(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match="a, b, c and 1 more") as refused:
        check_output(tmp_path)
    assert "--output" in str(refused.value.remedy)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "d"]


def test_a_layout_of_several_images(tmp_path: Path) -> None:
    layout(tmp_path / "image", [10], real_labels())
    index = tmp_path / "image" / "index.json"
    document = json.loads(index.read_text())
    index.write_text(json.dumps({**document, "manifests": document["manifests"] * 2}))
    with pytest.raises(UsageError, match="layout of 2 images"):
        check_output(tmp_path / "image")


@pytest.mark.parametrize("mode", [0o644, 0o755])
def test_no_folder_can_be_made_there(tmp_path: Path, mode: int) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(mode)
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        with pytest.raises(MissingError) as refused:
            check_writable(place, "cache")
        assert "--cache" in str(refused.value.remedy) and refused.value.where == str(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(MissingError, match="may not"):
        check_writable(tmp_path, "output")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--output", "/etc"], 2, "holds other things"),
        (["--output", "/proc/nowhere"], 3, "--output"),
        (["--cache", "/proc/nowhere"], 3, "--cache"),
        (["--cache", __file__], 3, "--cache"),
        (["--from", "/nowhere"], 2, "no such folder"),
        (["--base", ""], 2, "--base: it is empty"),
        (["--variant", "cpu,"], 2, "empty name"),
        (["--jobs", "-3"], 2, "from 1 on"),
    ],
)
def test_a_build_says_so_before_it_begins(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(tmp_path / "store")]
    output = [] if "--output" in words else ["--output", str(tmp_path / "out")]
    assert cli.main(["build", *store, *output, *words]) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "store").exists(), "something was fetched"


def test_no_engine_to_load_into_is_found_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert cli.main(["build", "--load", "--store", str(tmp_path / "store"), "--output", str(tmp_path / "out")]) == 3
    assert "Docker" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_store_that_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("list", "verify", "prune"):
        assert cli.main(["store", action, "--store", __file__]) == 2
        assert "no folder" in capsys.readouterr().err
