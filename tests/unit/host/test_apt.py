"""Missing system packages: installed as root, named with a command otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.host import apt, process
from slipway.host.packages import BY_COMMAND, ENGINE, UNPRIVILEGED, Tool

NOWHERE = Tool("slipway-no-such-program", "slipway-no-such-package", "a test wants it")


class FakeApt:
    """Stands for apt-get: records calls, answers with the given exit codes in turn (then 0)."""

    def __init__(self, *codes: int) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.codes = list(codes)

    def __call__(self, *arguments: str) -> process.Result:
        self.calls.append(arguments)
        code = self.codes.pop(0) if self.codes else 0
        return process.Result(code, "", "E: no such thing" if code else "")


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A root user on a Debian whose lists and lock lie in a folder of the test."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(apt, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(apt, "LISTS", tmp_path)
    monkeypatch.setattr(process, "which", lambda name: Path("/usr/bin/apt-get") if name == "apt-get" else None)
    return tmp_path


def test_nothing_is_run_when_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeApt()
    monkeypatch.setattr(apt, "apt_get", fake)
    apt.ensure([Tool("sh", "dash", "tests"), Tool("/etc/passwd", "base-files", "tests")])
    assert fake.calls == []


def test_a_user_gets_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(process, "which", lambda name: Path("/usr/bin/apt-get") if name == "apt-get" else None)
    with pytest.raises(MissingError) as caught:
        apt.ensure([NOWHERE])
    assert caught.value.exit_code == 3
    assert "sudo" in str(caught.value)
    assert "slipway-no-such-package" in str(caught.value)


def test_a_system_without_apt_is_told_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "which", lambda _name: None)
    with pytest.raises(MissingError, match="no apt-get"):
        apt.ensure([NOWHERE])


def test_lists_are_updated_first_on_a_fresh_machine(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeApt()
    monkeypatch.setattr(apt, "apt_get", fake)
    apt.install(["a", "b"], why="a test")
    assert [call[0] for call in fake.calls] == ["update", "install"]
    assert fake.calls[-1][-2:] == ("a", "b")


def test_old_lists_are_updated_when_the_mirror_has_moved_on(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (as_root / "mirror_dists_x_main_binary-amd64_Packages").touch()
    fake = FakeApt(100)
    monkeypatch.setattr(apt, "apt_get", fake)
    apt.install(["a"], why="a test")
    assert [call[0] for call in fake.calls] == ["install", "update", "install"]


def test_a_failed_install_says_what_apt_said(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "apt_get", FakeApt(0, 100))
    with pytest.raises(MissingError, match="no such thing"):
        apt.install(["a"], why="a test")


def test_a_package_that_does_not_bring_its_program_is_an_error(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "apt_get", FakeApt())
    with pytest.raises(MissingError, match="still missing"):
        apt.ensure([NOWHERE])


def test_names_are_unique() -> None:
    tools = (*UNPRIVILEGED, *ENGINE)
    assert len(BY_COMMAND) == len(tools)
