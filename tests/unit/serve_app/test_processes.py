"""Ending everything below, whatever it does."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[3] / "serve_app" / "src"

# A tree: a child that ignores SIGTERM, a grandchild, and an orphan in a session of its own.
TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
print("up", flush=True)
time.sleep(60)
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n" + textwrap.dedent(body)]


def test_nothing_is_left_below() -> None:
    result = subprocess.run(
        script(
            f"""
            import os, subprocess, sys, time
            from serve_app.run import processes
            processes.become_subreaper()
            child = subprocess.Popen([sys.executable, "-c", {TREE!r}], stdout=subprocess.PIPE)
            child.stdout.readline()
            end = time.monotonic() + 10
            while (before := len(processes.below(os.getpid()))) < 3 and time.monotonic() < end:
                time.sleep(0.05)
            killed = processes.end_all(os.getpid(), 0.5)
            child.returncode = 0
            print(before, killed, len(processes.below(os.getpid())))
            """
        ),
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    before, killed, after = map(int, result.stdout.split())
    assert before >= 3
    assert killed >= 1
    assert after == 0


SUPERVISE = """
    import sys, time
    from serve_app.run.phases import Reporter
    from serve_app.run.supervisor import Supervisor
    command = [sys.executable, "-c", {runner!r}]
    sys.exit(Supervisor(command, b"{{}}", Reporter({form!r})).run())
"""
READY = 'import json, os; os.write(int(os.environ["SERVE_APP_EVENTS"]), b\'{"name": "ready", "text": "up"}\\n\')\n'


def supervise(runner: str, form: str = "text") -> subprocess.Popen[str]:
    return subprocess.Popen(script(SUPERVISE.format(runner=runner, form=form)), stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_the_runners_code_is_passed_on(code: int, expected: int) -> None:
    process = supervise(f"raise SystemExit({code})")
    process.communicate(timeout=20)
    assert process.returncode == expected


def test_a_runner_that_is_killed_is_a_failure() -> None:
    process = supervise("import os; os.kill(os.getpid(), 9)")
    _, text = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "SIGKILL" in text


@pytest.mark.parametrize(("name", "expected"), [("SIGTERM", 0), ("SIGINT", 130)])
def test_a_signal_while_loading_ends_at_once(name: str, expected: int) -> None:
    import signal

    # The runner ignores SIGTERM, as one that is deep in foreign code does.
    process = supervise("import signal, sys, time; signal.signal(15, signal.SIG_IGN); sys.stderr.write('up\\n'); "
                        "sys.stderr.flush(); time.sleep(60)")  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == "up\n"
    start = time.monotonic()
    process.send_signal(signal.Signals[name])
    _, text = process.communicate(timeout=20)
    assert process.returncode == expected
    assert time.monotonic() - start < 8
    assert "while loading" in text


def test_a_signal_while_serving_lets_the_runner_end_by_itself() -> None:
    runner = READY + (
        "import signal, sys, time\n"
        "def stop(*_):\n    time.sleep(0.5); sys.stderr.write('drained\\n'); sys.stderr.flush(); os._exit(0)\n"
        "signal.signal(15, stop)\nsys.stderr.write('up\\n'); sys.stderr.flush()\ntime.sleep(60)\n"
    )
    process = supervise(runner)
    assert process.stderr is not None
    while process.stderr.readline() != "up\n":
        pass
    time.sleep(0.2)
    process.terminate()
    _, text = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "drained" in text


def test_a_second_signal_ends_the_patience() -> None:
    runner = READY + "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(60)\n"
    process = supervise(runner)
    assert process.stderr is not None
    while "ready" not in process.stderr.readline():
        pass
    start = time.monotonic()
    process.terminate()
    time.sleep(0.5)
    process.terminate()
    process.communicate(timeout=20)
    assert time.monotonic() - start < 5
    assert process.returncode == 0


def test_json_lines_throughout() -> None:
    import json

    process = supervise(READY + "print('a plain line'); print('{\"already\": 1}')", form="json")
    _, text = process.communicate(timeout=20)
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"event": "log", "message": "a plain line"} in lines
    assert {"already": 1} in lines
    assert any(line.get("event") == "ready" and "seconds" in line for line in lines)
