"""The doctor: every finding that is not fine says what to do; nothing it looks at can stop it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.cli import doctor as verb
from slipway.doctor import checks, memory, rights, sandbox, space, tools
from slipway.doctor import engine as engine_check
from slipway.doctor.model import Finding, Machine
from slipway.engine import find
from slipway.engine.model import Engine, Unreachable
from slipway.host import apt, process
from slipway.host.packages import Tool


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "store", tmp_path / "cache", tmp_path / "out")


def test_this_machine_can_be_examined(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    args = argparse.Namespace(store=machine.store, cache=machine.cache, output=machine.output, json=True)
    code = verb.run(args)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["check"] for finding in findings} >= {"python", "rights", "space", "engine"}
    assert code == (3 if any(finding["severity"] == "error" for finding in findings) else 0)
    assert all(finding["remedy"] for finding in findings if finding["severity"] in ("warning", "error"))
    assert not machine.store.exists(), "the doctor changes nothing"


def test_a_check_that_breaks_is_a_finding(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_machine: Machine) -> Iterator[Finding]:
        raise RuntimeError("odd")
        yield

    monkeypatch.setattr(checks, "ALL", (broken,))
    [finding] = checks.examine(machine)
    assert finding.severity == "warning"
    assert "odd" in finding.what


def test_missing_tools_are_an_error_for_a_user_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "BUILD", (Tool("slipway-none", "slipway-package", "a test"),))
    monkeypatch.setattr(apt, "can_install", lambda: True)
    assert [f.severity for f in tools.check(machine) if "slipway-none" in f.what] == ["note"]
    monkeypatch.setattr(apt, "can_install", lambda: False)
    [finding] = [f for f in tools.check(machine) if "slipway-none" in f.what]
    assert finding.severity == "error"
    assert "slipway-package" in finding.remedy


def test_a_user_needs_subordinate_ids_and_namespaces(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rights, "subordinate", lambda _path, _user: 0)
    monkeypatch.setattr(process, "run", lambda *_a, **_k: process.Result(1, "", ""))
    found = list(rights.check(machine))
    assert [finding.severity for finding in found] == ["error"] * 3
    assert "usermod --add-subuids" in found[0].remedy


def test_subordinate_ids_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "subuid"
    path.write_text(f"# no\nalice:100000:65536\nbob:165536:10\n{os.getuid()}:1:5\nalice:300000:1\nalice:x\n")
    assert rights.subordinate(path, "alice") == 65536 + 5 + 1
    assert rights.subordinate(tmp_path / "absent", "alice") == 0


def test_no_network_namespace_is_a_warning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "run", lambda *_a, **_k: process.Result(1, "", ""))
    [finding] = sandbox.check(machine)
    assert (finding.severity, "--sandbox=weak" in finding.remedy) == ("warning", True)


def test_little_space_is_a_warning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "NEEDED", dict.fromkeys(space.NEEDED, 10**18))
    assert [finding.severity for finding in space.check(machine)] == ["warning"]


def test_a_folder_that_cant_be_written_to_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert [finding.severity for finding in space.check(machine)].count("error") == 3


def test_memory_is_read() -> None:
    assert memory.read_available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n") == 2048 * 1024
    assert memory.read_available("") == 0


@pytest.mark.parametrize(
    ("found", "root", "severity"),
    [
        (Engine("28.5.2", "containerd"), False, "ok"),
        (Engine("20.10.24", "classic"), False, "note"),
        (Unreachable(installed=False, denied=False), True, "note"),
        (Unreachable(installed=True, denied=True), False, "warning"),
    ],
)
def test_an_engine_is_optional(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, found: Engine | Unreachable, root: bool, severity: str
) -> None:
    monkeypatch.setattr(find, "probe", lambda: found)
    monkeypatch.setattr(apt, "can_install", lambda: root)
    [finding] = engine_check.check(machine)
    assert finding.severity == severity
