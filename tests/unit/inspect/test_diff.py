"""slipway.inspect.diff: each kind of change is found once, and the sums are right."""

from __future__ import annotations

import json
from pathlib import Path

import image_builder as make
import pytest

from slipway.inspect.diff import ImageDiff, compare
from slipway.inspect.diff_text import markdown, text
from slipway.inspect.image import read_image

Members = dict[str, make.Item | bytes | str | None]
BASE: Members = {
    "etc/a": b"1",
    "etc/mode": b"1",
    "etc/gone": b"12345",
    "etc/link": "a",
    "etc/kind": b"1",
    "var/lib/dpkg/status": b"Package: tini\nStatus: install ok installed\nVersion: 0.19\n",
}
NEXT: Members = {
    "etc/a": b"123",
    "etc/mode": make.Item(b"1", mode=0o600, uid=7),
    "etc/link": "mode",
    "etc/kind": "a",
    "etc/new|odd": b"1234",
    "var/lib/dpkg/status": b"Package: tini\nStatus: install ok installed\nVersion: 0.20\n",
}
SHARED: Members = {"opt/big": b"same"}


@pytest.fixture
def diff(tmp_path: Path) -> ImageDiff:
    before = make.layout(
        tmp_path / "a",
        [BASE, SHARED, make.wheel("ray", "2.60.0", {"ray/x.py": b"1"})],
        names=["debian", "big", "ray"],
        config={"Env": ["A=1", "B=1"], "Labels": {"version": "1"}},
    )
    after = make.layout(
        tmp_path / "b",
        [NEXT, SHARED, make.wheel("vllm", "0.29.0", {"vllm/x.py": b"1"})],
        names=["debian", "big", "vllm"],
        config={"Env": ["A=2", "B=1"], "Labels": {"version": "2"}, "Cmd": ["serve", "x"]},
    )
    return compare(read_image(before), read_image(after))


def test_packages_and_settings(diff: ImageDiff) -> None:
    assert diff.packages == {
        "deb tini": ("0.19", "0.20"),
        "wheel ray": ("2.60.0", None),
        "wheel vllm": (None, "0.29.0"),
    }
    assert diff.settings == {"Cmd": (None, "serve x"), "env A": ("1", "2"), "label version": ("1", "2")}


def test_files(diff: ImageDiff) -> None:
    changes = {c.path: (c.kind, c.growth, c.what) for c in diff.files if c.path.startswith("etc/")}
    assert changes == {
        "etc/a": ("content", 2, ""),
        "etc/mode": ("mode", 0, "644 → 600, 0:0 → 7:0"),
        "etc/gone": ("removed", -5, ""),
        "etc/link": ("content", 0, "→ a is now → mode"),
        "etc/kind": ("mode", -1, "file → symlink"),
        "etc/new|odd": ("added", 4, ""),
    }
    owners = {c.owner for c in diff.files}
    assert {"layer debian", "wheel ray 2.60.0", "wheel vllm 0.29.0"} <= owners


def test_layers_and_bytes(diff: ImageDiff) -> None:
    assert [(layer.name, layer.state) for layer in diff.layers] == [
        ("debian", "changed"), ("big", "shared"), ("vllm", "added"), ("ray", "removed")
    ]  # fmt: skip
    shared = next(layer for layer in diff.layers if layer.name == "big")
    assert diff.to_pull == diff.size_after - shared.after


def test_one_image(tmp_path: Path) -> None:
    image = read_image(make.layout(tmp_path, [BASE]))
    same = compare(image, image)
    assert same.same
    assert (same.to_pull, same.files, same.packages) == (0, (), {})
    assert text(same).startswith("one image: sha256:")
    assert "one image" in markdown(same)


def test_hard_links_are_files_and_layers_need_no_names(tmp_path: Path) -> None:
    plain: Members = {"a": b"1", "b": b"1"}
    linked: Members = {"a": b"1", "b": make.Item(target="a", hard=True, mode=0o644)}
    before, after = (read_image(make.layout(tmp_path / n, [m])) for n, m in (("1", plain), ("2", linked)))
    result = compare(before, after)
    assert result.files == ()
    assert [layer.state for layer in result.layers] == ["changed"]


def test_all_forms_say_the_same(diff: ImageDiff) -> None:
    document = json.loads(json.dumps(diff.as_json()))
    assert document["packages"]["deb tini"] == ["0.19", "0.20"]
    shown = text(diff)
    assert "deb tini: 0.19 → 0.20" in shown
    assert "wheel ray: gone, was 2.60.0" in shown
    assert "wheel vllm: new, 0.29.0" in shown
    assert "etc/gone" not in shown
    assert "- etc/gone" in text(diff, all_files=True)
    table = markdown(diff)
    assert "| deb tini | 0.19 | 0.20 |" in table
    assert "| big |" not in table, "shared layers move no bytes"
    assert "etc/new|odd" in markdown(diff, all_files=True)


def test_paths_that_are_no_utf8_can_be_printed(tmp_path: Path) -> None:
    before, after = (
        read_image(make.layout(tmp_path / name, [members]))
        for name, members in (("1", {}), ("2", {"a\udcff": b"1"}))  # type: ignore[dict-item]
    )
    result = compare(before, after)
    text(result, all_files=True).encode()
    markdown(result, all_files=True).encode()
    json.dumps(result.as_json()).encode()
