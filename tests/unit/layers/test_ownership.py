"""Paths that two wheels install."""

from __future__ import annotations

import pytest

from slipway.errors import UsageError
from slipway.layers.ownership import Ownership, PathConflict, settle
from slipway.lock.model import Wheel
from slipway.pins.model import Contested
from slipway.wheel.index import WheelIndex
from slipway.wheel.paths import Venv
from slipway.wheel.venv import venv_entries

RESERVED = {entry.path: entry.kind for entry in venv_entries(Venv(), "3.11.2")}


def of(contents: dict[str, dict[str, str]], **options: object) -> Ownership:
    """settle() for wheel name → path → content; in reverse order, which must not matter."""
    indexed = [
        (Wheel(name, "1", f"{name}-1-py3-none-any.whl", 1, name), WheelIndex(files)) for name, files in contents.items()
    ]
    return settle(indexed[::-1], **options)  # type: ignore[arg-type]


def test_nothing_shared() -> None:
    assert of({"a": {"x": "1"}, "b": {"y": "1"}}) == Ownership()


def test_same_bytes_go_to_the_first_by_name() -> None:
    found = of({"b": {"x": "1", "y": "2"}, "a": {"x": "1"}, "c": {"x": "1"}})
    (shared,) = found.shared
    assert (shared.path, shared.owner, shared.others, shared.reason) == ("x", "a", ("b", "c"), "")
    assert found.ceded == {"b": {"x": "a"}, "c": {"x": "a"}}
    assert found.lost == {}
    assert str(shared) == "/x: written by a, also in b, c (same bytes)"


def test_different_bytes_stop() -> None:
    with pytest.raises(PathConflict) as caught:
        of({"a": {"x": "1", "y": "1"}, "b": {"x": "2", "y": "2"}})
    assert isinstance(caught.value, UsageError)
    text = str(caught.value)
    assert "/x has different bytes in a-1-py3-none-any.whl and b-1-py3-none-any.whl" in text and "/y" in text


@pytest.mark.parametrize("path", ["x", "/x"])
def test_contested_path_goes_to_its_owner(path: str) -> None:
    found = of(
        {"a": {"x": "1"}, "b": {"x": "2"}, "c": {"x": "2"}}, contested={path: Contested(path, "b", "a's is a leftover")}
    )
    assert found.shared[0].owner == "b" and found.shared[0].reason == "a's is a leftover"
    assert found.ceded == {"a": {"x": "b"}, "c": {"x": "b"}}
    assert found.lost == {"a": {"x": "b"}}
    assert found.unused == ()


def test_contested_by_somebody_else() -> None:
    with pytest.raises(PathConflict, match="should be z's"):
        of({"a": {"x": "1"}, "b": {"x": "2"}}, contested={"x": Contested("x", "z", "r")})


def test_contested_path_that_nobody_disputes() -> None:
    assert of({"a": {"x": "1"}}, contested={"x": Contested("x", "a", "r")}).unused == ("x",)


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_file_in_place_of_a_folder(names: str) -> None:
    with pytest.raises(PathConflict, match=r"/x/y is a file in .* and a folder in"):
        of({names[0]: {"x/y": "1"}, names[1]: {"x/y/z/w": "2"}})


def test_link_in_place_of_a_folder() -> None:
    with pytest.raises(PathConflict, match="/x is a file in .* and a folder in"):
        of({"a": {"x": "-> y", "y": "1"}, "b": {"x/z": "2"}})


@pytest.mark.parametrize("path", ["opt/venv/bin/python", "opt/venv/lib64", "opt/venv/lib64/x", "opt/venv/pyvenv.cfg"])
def test_the_venvs_own_files(path: str) -> None:
    with pytest.raises(PathConflict, match="of the image itself"):
        of({"a": {path: "1"}}, reserved=RESERVED)


def test_what_lies_in_the_venvs_folders_is_fine() -> None:
    assert of({"a": {"opt/venv/bin/tool": "1", "opt/venv/lib/libx.so": "2"}}, reserved=RESERVED)


def test_venv() -> None:
    entries = {entry.path: entry for entry in venv_entries(Venv(), "3.11.2")}
    config = entries["opt/venv/pyvenv.cfg"].read
    assert config is not None
    lines = b"".join(config()).decode().splitlines()
    assert {"home = /usr/bin", "include-system-site-packages = false", "version = 3.11.2"} <= set(lines)
    assert entries["opt/venv/bin/python"].target == "/usr/bin/python3.11"
    assert entries["opt/venv/bin/python3"].target == entries["opt/venv/bin/python3.11"].target == "python"
    assert entries["opt/venv/lib64"].target == "lib"
