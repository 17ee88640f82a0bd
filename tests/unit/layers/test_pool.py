"""Worker processes: results, errors, progress, death."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from slipway.errors import BuildFailed, InvalidInput, Problem
from slipway.layers.pool import Report, WorkerPool
from slipway.wheel.refused import RefusedWheel


def double(number: int, report: Report) -> int:
    print("whatever is printed must not disturb the messages")
    report(number)
    return number * 2


def where(report: Report) -> tuple[int, dict[str, str]]:
    return os.getpid(), dict(os.environ)


def fail(kind: str, report: Report) -> None:
    if kind == "refused":
        raise RefusedWheel("w.whl", "what", member="m", why="why", remedy="remedy")
    if kind == "invalid":
        raise InvalidInput("what", [Problem("p", 1, "x")])
    if kind == "disk":
        raise OSError(28, "No space left on device", "/x")
    if kind == "unpicklable":
        error = ValueError("x")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error
    if kind == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


def wait(seconds: float, report: Report) -> None:
    time.sleep(seconds)


def test_results_and_progress() -> None:
    counts: list[int] = []
    with WorkerPool(2) as pool:
        futures = [pool.submit(double, number, report=counts.append) for number in range(20)]
        assert [future.result() for future in futures] == [number * 2 for number in range(20)]
    assert sum(counts) == sum(range(20))


def test_processes_are_kept_and_their_environment_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    with WorkerPool(1) as pool:
        (one, environment), (other, _) = pool.submit(where).result(), pool.submit(where).result()
    assert one == other != os.getpid()
    assert not {"SECRET", "PYTHONWARNINGS"} & environment.keys()
    with pytest.raises(ProcessLookupError):
        os.kill(one, 0)


def test_the_biggest_goes_first() -> None:
    order: list[int] = []
    with WorkerPool(1) as pool:
        first = pool.submit(wait, 0.3)
        while not first.running():  # else one of the others could be the first that the worker sees
            time.sleep(0.01)
        futures = [pool.submit(double, size, size=size, report=order.append) for size in (1, 3, 2)]
        for future in [first, *futures]:
            future.result()
    assert order == [3, 2, 1]


def test_errors_arrive_whole() -> None:
    with WorkerPool(1) as pool:
        with pytest.raises(RefusedWheel) as refused:
            pool.submit(fail, "refused").result()
        assert (refused.value.wheel, refused.value.member, refused.value.why) == ("w.whl", "m", "why")
        assert "pool" in refused.value.__notes__[0] or "test_pool" in refused.value.__notes__[0]
        with pytest.raises(InvalidInput) as invalid:
            pool.submit(fail, "invalid").result()
        assert invalid.value.problems == (Problem("p", 1, "x"),)
        with pytest.raises(OSError, match="No space") as disk:
            pool.submit(fail, "disk").result()
        assert disk.value.errno == 28
        with pytest.raises(RuntimeError, match="ValueError: x"):
            pool.submit(fail, "unpicklable").result()
        assert pool.submit(double, 1).result() == 2


@pytest.mark.parametrize(("kind", "text"), [("exit", "code 3"), ("kill", "signal 9")])
def test_a_worker_that_dies(kind: str, text: str) -> None:
    with WorkerPool(1) as pool:
        with pytest.raises(BuildFailed, match=text):
            pool.submit(fail, kind).result()
        assert pool.submit(double, 1).result() == 2


def test_leaving_kills_what_runs() -> None:
    begun = time.monotonic()
    with WorkerPool(2) as pool:
        running = pool.submit(wait, 60)
        waiting = [pool.submit(wait, 60) for _ in range(3)]
        while not running.running():
            time.sleep(0.01)
    assert time.monotonic() - begun < 30
    assert running.done() and isinstance(running.exception(), BuildFailed)
    assert all(future.cancelled() or future.exception() for future in waiting)
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(wait, 1)


def test_workers_end_with_a_killed_parent(tmp_path: object) -> None:
    import subprocess
    import sys
    from pathlib import Path

    program = (
        "import time\n"
        "from slipway.layers.pool import WorkerPool\n"
        "from tests.unit.layers.test_pool import wait, where\n"
        "pool = WorkerPool(1)\n"
        "print(pool.submit(where).result()[0], flush=True)\n"
        "pool.submit(wait, 60)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).resolve().parents[3]
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _alive(worker):
        time.sleep(0.05)
    assert not _alive(worker)


def _alive(pid: int) -> bool:
    from pathlib import Path

    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
