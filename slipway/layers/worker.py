"""A worker process of slipway.layers.pool: takes tasks on stdin, answers on stdout, ends when stdin does."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import traceback
from typing import IO, Any

from slipway.layers.pool import packed, receive, send

_STEP = 4 << 20
"""Bytes between two progress messages."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    tasks = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # whatever prints by mistake must not get between the messages
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, inbox), daemon=True).start()
    while True:
        function, arguments = inbox.get()
        reporter = _Reporter(answers)
        try:
            answer: tuple[str, Any] = ("result", function(*arguments, reporter))
            reporter.flush()
        except BaseException as error:
            answer = ("error", _portable(error))
        try:
            send(answers, answer)
        except BrokenPipeError:
            return


def _listen(tasks: IO[bytes], inbox: queue.SimpleQueue[Any]) -> None:
    """Take tasks. When the parent is gone, however it went, so is this process, in the middle of its work."""
    try:
        while True:
            inbox.put(receive(tasks))
    except BaseException as error:
        if not isinstance(error, EOFError):
            traceback.print_exc()
        os._exit(1)


class _Reporter:
    """Gathers counts of bytes, so that not every file costs a message."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._count = 0

    def __call__(self, count: int) -> None:
        self._count += count
        if self._count >= _STEP:
            self.flush()

    def flush(self) -> None:
        if self._count:
            send(self._answers, ("progress", self._count))
            self._count = 0


def _portable(error: BaseException) -> Any:
    trace = "".join(traceback.format_exception(error)).rstrip()
    document = packed(error, trace)
    try:
        pickle.dumps(document)
    except Exception:
        return RuntimeError, (f"{type(error).__name__}: {error}",), {}, trace
    return document


if __name__ == "__main__":
    main()
