"""Work on many things with a few threads that stop together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from slipway.sources.outcome import Cancelled

T = TypeVar("T")

LINGER = 2.0
"""Seconds that an interrupted command waits for its threads. They are daemons: a stuck connection can't keep us."""


def each(items: Iterable[T], work: Callable[[T], object], threads: int, cancel: threading.Event) -> None:
    """Call `work` with every item, `threads` at a time, in order of their beginning.

    The first error sets `cancel`, lets the others stop, and is raised; so does an interrupt (Ctrl-C) here.
    """
    queue: Iterator[T] = iter(list(items))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run() -> None:
        while not cancel.is_set():
            with lock:
                item = next(queue, None)
            if item is None:
                return
            try:
                work(item)
            except Cancelled:
                return
            except BaseException as error:  # noqa: BLE001 (handed to the caller)
                errors.append(error)
                cancel.set()

    workers = [threading.Thread(target=run, daemon=True, name=f"slipway-{n}") for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException:
        cancel.set()
        for worker in workers:
            worker.join(LINGER / len(workers))
        raise
    if errors:
        raise errors[0]
    if cancel.is_set():
        raise KeyboardInterrupt
