"""The bill against syft's list: what is missing or unexplained stops, what is explained does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipway.errors import GateRefused, UsageError
from slipway.supply.components import components
from slipway.supply.syft import compare
from tests.unit.supply.test_supply import LOCK

ALLOW = '[allow]\n"python */ray/vendored/*" = "part of ray"\n"rust-crate /bin/*" = "compiled in"\n'


def row(kind: str, name: str, version: str, path: str = "/x") -> dict[str, object]:
    return {"type": kind, "name": name, "version": version, "locations": [{"path": path}]}


FOUND = [row("python", "Ray", "2.60.0"), row("python", "vllm", "0.29.0+cpu"), row("deb", "g++", "4:12.2.0-3")]


def report(folder: Path, rows: list[dict[str, object]]) -> tuple[Path, Path]:
    (folder / "syft.json").write_text(json.dumps({"artifacts": rows}))
    (folder / "allow.toml").write_text(ALLOW)
    return folder / "syft.json", folder / "allow.toml"


def test_the_same_list(tmp_path: Path) -> None:
    result = compare(components(LOCK, {}), *report(tmp_path, FOUND))
    result.refuse()
    assert (result.missing, result.extra) == ((), ())
    assert len(result.unused) == 2


def test_explained_differences(tmp_path: Path) -> None:
    more = [row("python", "idna", "1", "/opt/ray/vendored/idna/METADATA"), row("rust-crate", "x", "1", "/bin/uv")]
    result = compare(components(LOCK, {}), *report(tmp_path, [*FOUND, *more]))
    result.refuse()
    assert (result.explained, result.unused) == (2, ())


@pytest.mark.parametrize(
    "rows",
    [FOUND[1:], FOUND[:2], [*FOUND, row("python", "ray", "2.61.0")], [*FOUND, row("deb", "curl", "1")]],
    ids=["a wheel is missing", "a deb is missing", "another version besides", "an unknown deb"],
)
def test_a_new_difference_stops(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    with pytest.raises(GateRefused):
        compare(components(LOCK, {}), *report(tmp_path, rows)).refuse()


def test_what_is_no_report(tmp_path: Path) -> None:
    _, allow = report(tmp_path, [])
    (tmp_path / "other.json").write_text('{"matches": []}')
    with pytest.raises(UsageError):
        compare([], tmp_path / "other.json", allow)
