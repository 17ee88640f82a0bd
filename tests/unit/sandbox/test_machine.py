"""What a machine must have before a job starts."""

import platform
from pathlib import Path

import pytest

from slipway.debian.layer import TOOLS
from slipway.errors import MissingError
from slipway.host.packages import Tool
from slipway.sandbox import machine


def test_all_that_is_missing_is_named_at_once() -> None:
    tools = (Tool("no-such-a", "pkg-a", "why a"), Tool("sh", "dash", "why"), Tool("/no/such/b", "pkg-b", "why b"))
    with pytest.raises(MissingError, match="lacks no-such-a, /no/such/b") as caught:
        machine.require(tools, "amd64")
    assert caught.value.remedy == "apt-get install pkg-a pkg-b"
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("here", "arch"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_the_own_processor(monkeypatch: pytest.MonkeyPatch, here: str, arch: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: here)
    machine.require((), arch)


def test_another_processor_needs_qemu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "_BINFMT", tmp_path)
    with pytest.raises(MissingError, match="does not run programs for arm64"):
        machine.require((), "arm64")
    (tmp_path / "qemu-aarch64").touch()
    machine.require((), "arm64")


def test_the_list_names_mmdebstrap() -> None:
    assert "mmdebstrap" in {tool.package for tool in TOOLS}
    assert all(tool.why for tool in TOOLS)
