"""serve_app's list of what it overrides, against libraries that fit and that don't."""

from __future__ import annotations

import json
from pathlib import Path

import image_builder as make
import pytest

from slipway.gates import seams as gate
from slipway.gates.model import GateSettings
from slipway.inspect import seams
from slipway.inspect.content import KEPT
from slipway.inspect.image import read_image
from slipway.inspect.seams import Seam

FILE = "ray/serve/handle.py"
SOURCE = """
class Handle:
    size: int = 1

    def __init__(self, a, /, b, *rest, c=1, **more):
        self.made = a

    async def go(self, request): ...

def build(config, *, cls=None): ...
"""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("seam", "fault"),
    [
        (Seam(FILE, "Handle.__init__", ("self", "a", "b", "rest", "c", "more")), ""),
        (Seam(FILE, "Handle.go", ("self", "request")), ""),
        (Seam(FILE, "Handle"), ""),
        (Seam(FILE, "Handle.size"), ""),
        (Seam(FILE, "Handle.made"), ""),
        (Seam(FILE, "build", has=("cls",)), ""),
        (Seam(FILE, "Handle.go", ("self", "body")), "its parameters are (self, request), not (self, body)"),
        (Seam(FILE, "Handle.gone", ("self",)), "Handle has no gone"),
        (Seam(FILE, "Handle.made", ("self",)), "Handle has no made"),
        (Seam(FILE, "Handle.request"), "Handle has no request"),
        (Seam(FILE, "Other"), "Other is not defined there"),
        (Seam(FILE, "build.x"), "build is no class"),
        (Seam(FILE, "build", has=("router",)), "it has no parameter router"),
        (Seam("ray/gone.py", "x"), "the file is not there"),
    ],
)
def test_faults(seam: Seam, fault: str) -> None:
    assert [what for _, what in seams.faults([seam], {FILE: SOURCE})] == ([fault] if fault else [])


def test_a_file_that_is_no_python() -> None:
    ((_, fault),) = seams.faults([Seam(FILE, "x")], {FILE: "def ("})
    assert "can't be parsed" in fault


@pytest.mark.parametrize("text", ["", "[]", '{"seams": [{}]}', '{"seams": 1}'])
def test_texts_that_are_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of seams"):
        seams.read(text)


def test_the_gate_reads_the_list_and_the_sources_of_the_image(tmp_path: Path) -> None:
    listed = {"seams": [{"file": FILE, "name": "Handle.go", "parameters": ["self", "request"]},
                        {"file": FILE, "name": "Handle.stop", "parameters": ["self"]}]}  # fmt: skip
    members: dict[str, make.Item | bytes | str | None] = {
        f"{make.SITE}/{seams.LIST}": json.dumps(listed).encode(),
        f"{make.SITE}/{FILE}": SOURCE.encode(),
    }
    image = read_image(make.layout(tmp_path, [members], names=["base"]))
    (finding,) = gate.check(image, GateSettings())
    assert finding.subject == f"{FILE}:Handle.stop"
    assert "Handle has no stop" in finding.what


def test_an_image_without_serve_app_has_no_seams(tmp_path: Path) -> None:
    image = read_image(make.layout(tmp_path, [{"etc/hostname": b""}], names=["base"]))
    assert list(gate.check(image, GateSettings())) == []


def test_the_real_lists_files_are_kept_by_the_index() -> None:
    """A file that the index does not keep would be told as missing from every image."""
    listed = seams.read((ROOT / "serve_app/src" / seams.LIST).read_text())
    assert len(listed) > 20
    for seam in listed:
        assert KEPT.fullmatch(f"opt/venv/lib/python3.11/site-packages/{seam.file}"), seam.file
    assert KEPT.fullmatch(f"opt/venv/lib/python3.11/site-packages/{seams.LIST}")
