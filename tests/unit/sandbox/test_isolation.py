"""Which namespaces a job gets, and what a user is told who can't have them."""

import os
from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.host import process
from slipway.sandbox import isolation
from slipway.sandbox.isolation import Isolation, Kind, subordinate_ids


def machine(monkeypatch: pytest.MonkeyPatch, uid: int, *possible: Kind) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(isolation, "works", lambda kind: kind in possible)


def test_every_link_dies_with_the_one_before() -> None:
    argv = Isolation("owners").wrap(["program", "-x"])
    assert argv[:3] == ["setpriv", "--pdeathsig", "KILL"]
    assert "--kill-child=KILL" in argv and "--net" in argv and "--map-auto" in argv
    assert argv[-3:] == ["--", "program", "-x"]
    assert "--net" not in Isolation("none").wrap(["program"])
    assert not Isolation("none").strong


def test_root(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 0, "root")
    assert isolation.for_owners().kind == isolation.for_compiling().kind == "root"


def test_root_in_a_container_without_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 0)
    assert isolation.for_owners().kind == "none"
    with pytest.raises(MissingError, match="network can't be taken away") as caught:
        isolation.for_compiling()
    assert caught.value.exit_code == 3
    assert "--sandbox=weak" in str(caught.value)
    assert isolation.without_namespaces(caught.value).kind == "none"


def test_user_with_subordinate_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 1000, "owners", "single")
    assert isolation.for_owners().kind == "owners"
    assert isolation.for_compiling().kind == "single"


def test_user_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 1000)
    with pytest.raises(MissingError) as caught:
        isolation.for_compiling()
    with pytest.raises(MissingError, match="even a weak sandbox"):
        isolation.without_namespaces(caught.value)


@pytest.mark.parametrize(
    ("newuidmap", "lacks", "remedy"),
    [(None, True, "apt-get install uidmap"), (Path("/x"), True, "--add-subuids"), (Path("/x"), False, "sysctl")],
)
def test_the_remedy_fits_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, newuidmap: Path | None, lacks: bool, remedy: str
) -> None:
    machine(monkeypatch, 1000)
    monkeypatch.setattr(process, "which", lambda command: newuidmap)
    monkeypatch.setattr(isolation, "_lacks_ids", lambda: lacks)
    with pytest.raises(MissingError) as caught:
        isolation.for_owners()
    assert remedy in str(caught.value.remedy)


def test_subordinate_ids() -> None:
    table = "root:100000:65536\njo:165536:1000\n1000:200000:65536\nbroken\njo:x:y\n"
    assert subordinate_ids(table, "jo", 1000) == 65536
    assert subordinate_ids(table, "jo", 1) == 1000
    assert subordinate_ids(table, "other", 7) == 0
