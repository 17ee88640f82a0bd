"""The table of what can be had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slipway.lock import file, matrix
from slipway.pins import load
from slipway.pins.load import Pins

ROOT = Path(__file__).resolve().parents[3]


def test_every_committed_lock_has_a_row() -> None:
    pins = load(ROOT / "versions.toml")
    everything = list(matrix.rows(pins))
    found = {row.image: row for row in everything if row.locked}
    assert set(found) == {path.stem for path in (ROOT / "locks").glob("*.toml")}
    for label, row in found.items():
        wheels = {wheel.name: wheel.version for wheel in file.read(ROOT / f"locks/{label}.toml").wheels}
        assert row.versions["ray"] == wheels["ray"]
        assert row.fabric.split()[0] in ("source", "installer")
        kinds = sorted(other.fabric.split()[0] for other in everything if other.image == label)
        assert kinds == (["installer", "source"] if row.versions["cuda"] else ["source"])
    text = matrix.table(everything)
    assert len(text.splitlines()) == 1 + len(everything)
    assert "NCCL over EFA" in text


def test_only_the_real_installer_makes_a_cuda_image_a_production_one() -> None:
    pins = load(ROOT / "versions.toml")
    chosen = pins.selections["2.60", "cuda"]
    assert chosen.installer is not None
    kinds = {
        "source": chosen,
        "installer": replace(chosen, fabric="installer"),
        "stand-in": replace(chosen, fabric="installer", installer=replace(chosen.installer, stand_in="for a test")),
    }
    for name, selection in kinds.items():
        one = Pins("x", "2.60", "cuda", "amd64", {("2.60", "cuda"): selection})
        row = next(iter(matrix.rows(one)))
        assert (row.fabric.split()[0], row.production, row.nccl_over_efa) == (
            name,
            name == "installer",
            name == "installer",
        )
