"""Draining: the file that tells where a service is, the signals, and the waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml")

from serve_app.cli.main import main  # noqa: E402
from serve_app.drain import cluster, local  # noqa: E402
from serve_app.run import ray_local  # noqa: E402

SOURCES = Path(__file__).resolve().parents[3] / "serve_app" / "src"

SUPERVISE = """
import sys
from serve_app.run.phases import Reporter
from serve_app.run.supervisor import Supervisor
sys.exit(Supervisor([sys.executable, "-c", sys.argv[1]], b"{}", Reporter(), 8123, float(sys.argv[2])).run())
"""
RUNNER = """
import json, os, signal, time
def say(name):
    line = json.dumps({"name": name, "text": name}) + "\\n"
    os.write(int(os.environ["SERVE_APP_EVENTS"]), line.encode())
running = %d
def drain(*_):
    say("draining")
    if not running: say("drained")
signal.signal(signal.SIGUSR1, drain)
signal.signal(signal.SIGUSR2, lambda *_: say("taking"))
def stop(*_):
    time.sleep(%f)
    say("drained")
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
say("ready")
while True: time.sleep(0.1)
"""


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVE_APP_RUN", str(tmp_path / "run"))
    return tmp_path / "run"


def start(runner: str, drain_s: float = 20.0) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    return subprocess.Popen([sys.executable, "-c", SUPERVISE, runner, str(drain_s)], env=environment,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip


def wait_ready(where: Path) -> local.Running:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for _, running in local.all_of(where):
            if running.ready:
                return running
        time.sleep(0.05)
    raise TimeoutError("not ready")


def test_drain_waits_until_nothing_runs_and_undo_takes_it_back(where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = start(RUNNER % (0, 0))
    try:
        assert wait_ready(where).port == 8123
        assert main(["drain", "--timeout", "10"]) == 0
        assert "drained" in capsys.readouterr().out
        assert main(["drain", "--port", "8123", "--undo"]) == 0
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert list(where.glob("*")) == []


def test_drain_fails_when_requests_are_left(where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = start(RUNNER % (1, 0))
    try:
        wait_ready(where)
        assert main(["drain", "--timeout", "0.5"]) == 1
        assert "requests still run after 0.5 s" in capsys.readouterr().err
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def test_sigterm_waits_for_the_runner_as_long_as_said(where: Path) -> None:
    process = start(RUNNER % (1, 3.0), drain_s=30)
    wait_ready(where)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=30)
    assert time.monotonic() - begin >= 3.0
    assert process.returncode == 0
    assert "30 s at most" in text and "drained" in text


def test_nothing_to_drain(where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain"]) == 3
    local.write(local.Running(os.getpid(), 8000, 20.0), where)
    assert main(["drain", "--port", "8001"]) == 3
    assert main(["drain", "--port", "8000"]) == 3  # it loads
    assert "still loads" in capsys.readouterr().err


def test_several_services_have_to_be_told_apart(where: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local.write(local.Running(os.getpid(), 8000, 20.0, ready=True), where)
    local.write(local.Running(os.getppid(), 8001, 20.0, ready=True), where)
    assert main(["drain"]) == 2
    assert "8000, 8001" in capsys.readouterr().err


def test_a_file_that_a_killed_service_left_counts_for_nothing(where: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    local.write(local.Running(process.pid, 8000, 20.0, ready=True), where)
    (where / "7.json").write_text("{")
    assert local.all_of(where) == []


def test_waiting_ends_with_the_last_request_or_the_deadline() -> None:
    now = [0.0]
    left = [3, 2, 2, 0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    assert cluster.wait(["a"], 60, lambda _: left.pop(0), lambda: now[0], pause) == 0
    assert now[0] == pytest.approx(3 * cluster.POLL_S)
    now[0] = 0.0
    assert cluster.wait(["a"], 5, lambda _: 4, lambda: now[0], pause) == 4
    assert now[0] == pytest.approx(5, abs=cluster.POLL_S)


def test_a_handle_that_knows_no_replicas_yet_is_asked_again() -> None:
    now = [0.0]
    answers: list[Any] = [RuntimeError("no replicas"), RuntimeError("no replicas"), [{"in_flight": 2}, ValueError()]]

    def ask() -> list[Any]:
        answer = answers.pop(0) if answers else RuntimeError("gone")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def pause(seconds: float) -> None:
        now[0] += seconds

    assert cluster.asked(ask, lambda: now[0], pause) == 2
    assert cluster.asked(ask, lambda: now[0], pause) == 0
    assert now[0] < 2 * cluster.KNOWN_S


def test_rays_node_gets_another_chance_only_when_it_timed_out() -> None:
    calls: list[str] = []
    said: list[str] = []

    def slow() -> None:
        calls.append("start")
        if len(calls) < 4:
            raise Exception("The current node timed out during startup. This could happen because …")

    ray_local.patiently(slow, lambda: calls.append("clean"), lambda name, text: said.append(text))
    assert calls == ["start", "clean", "start", "clean", "start"]
    assert len(said) == 2

    def broken() -> None:
        raise RuntimeError("no space left")

    with pytest.raises(RuntimeError):
        ray_local.patiently(broken, lambda: None, lambda *_: said.append("again"))
    calls[:] = ["clean"] * -9

    def never() -> None:
        calls.append("start")
        raise Exception("timed out during startup")

    with pytest.raises(Exception, match="timed out"):
        ray_local.patiently(never, lambda: None, lambda *_: None)
    assert len(calls) == ray_local.STARTS


def test_the_text_that_is_waited_for_is_rays() -> None:
    node = pytest.importorskip("ray._private.node")
    assert ray_local.TIMED_OUT in Path(node.__file__).read_text()
