"""Running gates: excuses, reports, and results that are kept for as long as nothing changed."""

from __future__ import annotations

import json
from pathlib import Path

import image_builder as make
import pytest

from slipway.errors import GateRefused
from slipway.gates import run
from slipway.gates.model import GateSettings, Report
from slipway.gates.names import NAMES
from slipway.gates.run import run_gates

BAD: dict[str, make.Item | bytes | str | None] = {
    "usr/bin/su": make.Item(b"x", mode=0o4755),
    "usr/bin/mount": make.Item(b"x", mode=0o4755),
}


def setuid(report: Report) -> tuple[list[str], list[str]]:
    (result,) = [result for result in report.results if result.name == "setuid"]
    return [f.subject for f in result.findings], [f"{e.finding.subject}: {e.reason}" for e in result.excused]


def test_names() -> None:
    assert sorted(gate.NAME for gate in run.GATES) == list(NAMES)


def test_all_findings_are_in_the_refusal(tmp_path: Path) -> None:
    report = run_gates(make.layout(tmp_path, [BAD], config={"User": ""}), GateSettings())
    with pytest.raises(GateRefused) as caught:
        report.refuse()
    assert caught.value.exit_code == 6
    text = str(caught.value)
    for part in ("3 findings of user, setuid", "usr/bin/su", "usr/bin/mount", "config.User"):
        assert part in text
    document = json.loads(json.dumps(caught.value.as_json()))
    assert document["report"]["ok"] is False


def test_excuses(tmp_path: Path) -> None:
    folder = make.layout(tmp_path, [BAD])
    report = run_gates(folder, GateSettings(excuses={"setuid": {"usr/bin/su": "asks for a password"}}))
    assert setuid(report) == (["usr/bin/mount"], ["usr/bin/su: asks for a password"])
    report = run_gates(folder, GateSettings(excuses={"setuid": {"usr/*": "all"}}))
    assert setuid(report) == ([], ["usr/bin/mount: all", "usr/bin/su: all"])
    assert report.ok
    report.refuse()


def test_an_excuse_of_another_gate_counts_for_nothing(tmp_path: Path) -> None:
    report = run_gates(make.layout(tmp_path, [BAD]), GateSettings(excuses={"ownership": {"*": "all"}}))
    assert len(setuid(report)[0]) == 2


def test_an_idle_excuse_is_a_warning(tmp_path: Path) -> None:
    report = run_gates(make.layout(tmp_path, [{}]), GateSettings(excuses={"setuid": {"usr/bin/gone": "was needed"}}))
    assert report.ok
    ((gate, finding),) = report.findings("warning")
    assert (gate, finding.subject) == ("setuid", "usr/bin/gone")


def test_the_report_survives_json(tmp_path: Path) -> None:
    report = run_gates(make.layout(tmp_path, [BAD]), GateSettings(excuses={"setuid": {"usr/bin/su": "why"}}))
    assert Report.from_json(json.loads(json.dumps(report.as_json()))) == report


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make.layout(tmp_path / "layout", [BAD])
    first = run_gates(folder, GateSettings(), cache=tmp_path / "cache")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(run, "read_image", never)
    assert run_gates(folder, GateSettings(), cache=tmp_path / "cache") == first
    for change in ("settings", "version"):
        with monkeypatch.context() as inner:
            if change == "version":
                inner.setattr(run, "version", lambda: "other gates")
            with pytest.raises(AssertionError, match="read again"):
                run_gates(folder, GateSettings(layers=39 if change == "settings" else 40), cache=tmp_path / "cache")


def test_damaged_results_are_made_anew(tmp_path: Path) -> None:
    folder = make.layout(tmp_path / "layout", [BAD])
    first = run_gates(folder, GateSettings(), cache=tmp_path / "cache")
    (kept,) = (tmp_path / "cache" / "gates").iterdir()
    for junk in ("", "[]", "{}", '{"image": "x", "gates": []}'):
        kept.write_text(junk)
        assert run_gates(folder, GateSettings(), cache=tmp_path / "cache") == first


def test_a_cache_that_cant_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert not run_gates(make.layout(tmp_path / "layout", [BAD]), GateSettings(), cache=tmp_path / "cache").ok


def test_text_for_people(tmp_path: Path) -> None:
    text = run_gates(make.layout(tmp_path, [BAD]), GateSettings(excuses={"setuid": {"usr/bin/su": "why"}})).text()
    assert "NO  setuid" in text
    assert "ok  ssh" in text
    assert "usr/bin/mount" not in text, "what refuses is in the error"
