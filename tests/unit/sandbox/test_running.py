"""Jobs: what they get, what is heard of them, and that none outlives its build."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from slipway.errors import BuildFailed
from slipway.host.process import which
from slipway.sandbox.isolation import Isolation
from slipway.sandbox.running import ROOT, job
from slipway.sources.outcome import Cancelled

pytestmark = pytest.mark.skipif(which("setpriv") is None, reason="setpriv is not on this machine")
NONE = Isolation("none")
JOBS = "tests.unit.sandbox.jobs"


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def wait_for(path: Path) -> int:
    for _ in range(400):
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError("the job did not start")


def test_output_and_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    with job(NONE, f"{JOBS}:echo", {"text": "ü"}, log=log, what="x") as out:
        assert out.read() == "False ü".encode()
    assert log.read_text() == "a word for the log\n"


def test_nothing_of_the_caller_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LD_PRELOAD_X", "1")
    monkeypatch.setenv("HTTP_PROXY", "http://x")
    before = os.umask(0o077)
    try:
        with job(NONE, f"{JOBS}:environment", {}, log=tmp_path / "x.log", what="x") as out:
            said = json.load(out)
    finally:
        os.umask(before)
    assert said["umask"] == 0o022
    assert said["cwd"] == "/"
    assert said["env"]["TZ"] == "UTC"
    assert not {"LD_PRELOAD_X", "HTTP_PROXY", "PYTHONPATH"} & set(said["env"])
    assert said["env"]["SOURCE_DATE_EPOCH"] == "1600000000"


def test_a_failure_shows_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    with (
        pytest.raises(BuildFailed, match="the work failed: exit code 3\n    | this is why") as caught,
        job(NONE, f"{JOBS}:fail", {"code": 3}, log=log, what="the work") as out,
    ):
        out.read()
    assert caught.value.where == str(log)


def test_a_reader_that_fails_ends_the_job(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    with (
        pytest.raises(ZeroDivisionError),
        job(NONE, f"{JOBS}:sleep", {"mark": str(mark)}, log=tmp_path / "x.log", what="x"),
    ):
        pid = wait_for(mark)
        raise ZeroDivisionError
    assert gone(pid)


def test_cancelling_ends_the_job(tmp_path: Path) -> None:
    mark, cancelled = tmp_path / "pid", threading.Event()

    def cancel() -> None:
        wait_for(mark)
        cancelled.set()

    threading.Thread(target=cancel).start()
    start = time.monotonic()
    log = tmp_path / "x.log"
    with (
        pytest.raises(Cancelled),
        job(NONE, f"{JOBS}:sleep", {"mark": str(mark)}, log=log, what="x", cancelled=cancelled) as out,
    ):
        out.read()
    assert time.monotonic() - start < 30
    assert gone(wait_for(mark))


def test_a_driver_that_is_killed_takes_the_job_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = (
        "import sys; from pathlib import Path; from slipway.sandbox.isolation import Isolation\n"
        "from slipway.sandbox.running import job\n"
        "mark, log = sys.argv[1:]\n"
        f"with job(Isolation('none'), '{JOBS}:sleep', {{'mark': mark}}, log=Path(log), what='x') as out:\n"
        "    out.read()\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, str(mark), str(tmp_path / "x.log")], cwd=ROOT)
    pid = wait_for(mark)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert gone(pid)


def test_the_log_is_heard_while_it_grows(tmp_path: Path) -> None:
    heard: list[str] = []
    mark, cancelled = tmp_path / "pid", threading.Event()

    def listen(line: str) -> None:
        heard.append(line)

    with job(NONE, f"{JOBS}:echo", {"text": ""}, log=tmp_path / "x.log", what="x", heard=listen) as out:
        for _ in range(200):
            if heard:
                break
            time.sleep(0.05)
        out.read()
    assert heard == ["a word for the log\n"]
    assert not mark.exists() and not cancelled.is_set()
