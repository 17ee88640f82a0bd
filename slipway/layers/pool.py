"""Worker processes: Python work on all cores, with progress, and nothing left running when it ends.

Each worker is `python -m slipway.layers.worker`, a fresh interpreter with an allow-listed environment. multiprocessing
is not used: forking is unsafe where other layers are made in threads, and spawning runs the caller's main module again.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from slipway.errors import BuildFailed

Report = Callable[[int], None]
"""Told how many more bytes are done."""

_LENGTH = struct.Struct("<Q")
_PASSED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


def send(stream: IO[bytes], message: object) -> None:
    """One message: its length, then its pickle. Both ends are ours."""
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next message. Raises EOFError when the other end is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)  # noqa: S301  # written by our own worker


class WorkerPool:
    """At most `jobs` worker processes, started when there is work; a context manager, usable from several threads.

    Leaving it kills what still runs: workers write nothing that a kill could spoil.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = max(jobs, 1)
        self._waiting: list[tuple[int, int, Future[Any], tuple[Any, ...], Report | None]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._idle = 0
        self._closed = False

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def submit(
        self, function: Callable[..., Any], *arguments: object, size: int = 0, report: Report | None = None
    ) -> Future[Any]:
        """Have `function(*arguments, report)` run in a worker; the biggest `size` that waits goes first.

        function is a module's; arguments and result can be pickled. `report` is called in a thread of the pool.
        The future raises what the function raised, or BuildFailed when the worker died.
        """
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            heapq.heappush(self._waiting, (-size, next(self._count), future, (function, arguments), report))
            if self._idle < len(self._waiting) and len(self._threads) < self._jobs:
                thread = threading.Thread(target=self._serve, name=f"worker-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return future

    def close(self) -> None:
        """Stop at once. Futures that are not done are cancelled or fail."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            self._changed.notify_all()
        for _, _, future, _, _ in waiting:
            future.cancel()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        try:
            while True:
                with self._changed:
                    self._idle += 1
                    while not self._waiting and not self._closed:
                        self._changed.wait()
                    self._idle -= 1
                    if self._closed:
                        return
                    _, _, future, task, report = heapq.heappop(self._waiting)
                    if not future.set_running_or_notify_cancel():
                        continue
                    if process is None or process.poll() is not None:
                        process = self._start()
                try:
                    future.set_result(_ask(process, task, report))
                except BaseException as error:
                    future.set_exception(error)
        finally:
            if process is not None:
                process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        with contextlib.suppress(BrokenPipeError):
                            stream.close()

    def _start(self) -> subprocess.Popen[bytes]:
        root = Path(__file__).resolve().parents[2]
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        process = subprocess.Popen(
            [sys.executable, "-s", "-m", "slipway.layers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._processes.append(process)
        return process


def _ask(process: subprocess.Popen[bytes], task: object, report: Report | None) -> Any:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("a worker without pipes")
    try:
        send(process.stdin, task)
        while True:
            kind, value = receive(process.stdout)
            if kind == "progress":
                if report is not None:
                    report(value)
            elif kind == "result":
                return value
            else:
                raise restored(*value)
    except (EOFError, BrokenPipeError):
        code = process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        raise BuildFailed(
            f"a worker process {how}",
            why="the layer it was writing is not finished; nothing of it is left in the cache",
            remedy="look for the out-of-memory killer in dmesg, then build again, with fewer --jobs if it was that",
        ) from None


Packed = tuple[type[BaseException], tuple[Any, ...], dict[str, Any], str]


def packed(error: BaseException, trace: str) -> Packed:
    """An exception as it travels: class, arguments, attributes, the worker's traceback."""
    return type(error), error.args, dict(vars(error)), trace


def restored(
    kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any], trace: str
) -> BaseException:
    """The exception again, without calling a constructor whose parameters nobody knows here."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(attributes)
    error.add_note(f"in a worker process:\n{trace}")
    return error
