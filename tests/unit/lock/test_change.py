"""What differs between two locks, and bytes that must not differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slipway.errors import WrongArtifact
from slipway.lock.change import changes, refuse_other_bytes, summary
from slipway.lock.model import Deb, Lock, Wheel

A, B = "a" * 64, "b" * 64


def wheel(name: str, version: str, sha256: str = A, made: bool = False) -> Wheel:
    return Wheel(name, version, f"{name}-{version}-py3-none-any.whl", 1000, sha256, made)


def deb(name: str, version: str, sets: tuple[str, ...] = ("image",)) -> Deb:
    file = f"{name}_{version}_amd64.deb"
    return Deb(name, version, file, 2000, A, "bookworm", "main", f"pool/{file}", "amd64", sets)


OLD = Lock(
    "1.0", "cpu", "amd64", "sha256:x",
    (wheel("gone", "1"), wheel("idna", "1"), wheel("same", "1"), wheel("torch", "2"), wheel("vllm", "3", A, True)),
    (deb("bash", "5"), deb("wget", "1")),
)  # fmt: skip
NEW = replace(
    OLD,
    wheels=(
        *(wheel("idna", "2", B), wheel("new", "1"), wheel("same", "1"), wheel("torch", "2", B)),
        wheel("vllm", "3", B, True),
    ),
    debs=(deb("bash", "5", ("build", "image")), replace(deb("wget", "2"), sha256=B)),
)


def test_each_change_is_named() -> None:
    found = [(change.group, change.name, change.kind, change.bytes) for change in changes(OLD, NEW)]
    assert found == [
        ("wheel", "gone", "removed", 0),
        ("wheel", "idna", "bumped", 1000),
        ("wheel", "new", "added", 1000),
        ("wheel", "torch", "replaced", 1000),
        ("wheel", "vllm", "replaced", 1000),
        ("deb", "bash", "moved", 0),
        ("deb", "wget", "bumped", 2000),
    ]


def test_the_summary_is_for_people() -> None:
    text = summary("1.0-cpu-amd64", changes(OLD, NEW), NEW)
    assert "^ wheel  idna 1 → 2 (1.0 kB)" in text
    assert "- wheel  gone 1" in text
    assert text.splitlines()[-1] == (
        "1.0-cpu-amd64: 7 artifacts, 9.0 kB; 1 added, 1 removed, 2 bumped, 2 replaced, 1 moved; 6.0 kB to fetch"
    )
    assert summary("x", (), OLD) == "x: 7 artifacts, 9.0 kB; nothing changed"


def test_json_has_no_objects_of_ours() -> None:
    assert changes(OLD, NEW)[1].as_json() == {
        "group": "wheel", "name": "idna", "kind": "bumped", "old": "1", "new": "2", "bytes": 1000,
    }  # fmt: skip


def test_a_first_lock_is_all_new() -> None:
    assert {change.kind for change in changes(None, NEW)} == {"added"}
    assert changes(NEW, NEW) == ()


def test_other_bytes_under_the_same_name_are_refused_with_both_hashes() -> None:
    with pytest.raises(WrongArtifact) as caught:
        refuse_other_bytes(changes(OLD, NEW))
    assert caught.value.exit_code == 4
    text = str(caught.value)
    assert A in text and B in text and "torch 2 (torch-2-py3-none-any.whl)" in text and "--upgrade torch" in text


def test_bumps_and_the_drivers_own_wheels_are_not_refused() -> None:
    refuse_other_bytes([change for change in changes(OLD, NEW) if change.name != "torch"])
