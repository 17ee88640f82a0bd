"""Signs of life in a stream: what tells a replica that is slow from one that is gone.

Ray notices a killed process in a second, a cut link not at all: a call to a replica behind one waits for ever. So a
replica puts its clock (a float) between its items, at once and whenever it has been silent for `beat_s`. Beats come
from the very replica that works on the request, over its answer's connection: without them no answer will come either.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, TypeVar

from serve_app.dropped import drop

T = TypeVar("T")
SLICE_S = 0.5
"""Of a wait. Costs one wake-up; a standstill of this process counts as one slice."""


class Silent(Exception):
    """No sign of life in time. accepted: the replica had given one before."""

    def __init__(self, accepted: bool) -> None:
        super().__init__("silent" if accepted else "not accepted")
        self.accepted = accepted


async def beating(answer: Awaitable[AsyncGenerator[Any, None]], beat_s: float) -> AsyncGenerator[Any, None]:
    """The replica's side: an engine's items with beats between them. Ending it ends the engine's generator."""
    yield time.monotonic()
    items = await answer
    pending: asyncio.Future[Any] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(items))
            if not (await asyncio.wait({pending}, timeout=beat_s))[0]:
                yield time.monotonic()
                continue
            finished, pending = pending, None
            try:
                item = finished.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        await drop(pending, items)


async def _done_within(task: asyncio.Future[Any], seconds: float) -> bool:
    """Whether `task` ends in `seconds` of this event loop's own life.

    Waited for in slices: where this process stood still (an import, a full machine), what arrived meanwhile has not
    been read yet, and its own standstill must not be taken for the other side's silence.
    """
    slices = max(1, math.ceil(seconds / SLICE_S))
    for _ in range(slices):
        if (await asyncio.wait({task}, timeout=seconds / slices))[0]:
            return True
    return False


async def next_within(stream: AsyncIterator[Any], seconds: float) -> Any:
    """The next item. Raises TimeoutError after `seconds`, whatever the stream does.

    Not asyncio.wait_for: that waits until the cancelled call has ended, and a call of Ray's to a node behind a cut link
    does not end before Ray gives the node up, 30 s later.
    """
    task: asyncio.Future[Any] = asyncio.ensure_future(anext(stream))
    try:
        done = await _done_within(task, seconds)
    except asyncio.CancelledError:
        _forget(task)
        raise
    if not done:
        _forget(task)
        raise TimeoutError
    return task.result()


async def within(work: Awaitable[T], seconds: float) -> T:
    """What `work` gives. Raises TimeoutError after `seconds`, whatever it gives then.

    Not asyncio.wait_for: vLLM answers a call that is cancelled with an error of its own ("Client disconnected"), and
    wait_for takes that for the call's result.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return task.result()
        raise TimeoutError
    finally:
        await drop(task)


class Kept:
    """A stream that can be waited for again after a wait was given up: no item that is on its way gets lost."""

    def __init__(self, stream: AsyncIterator[Any]) -> None:
        self.stream = stream
        self._task: asyncio.Future[Any] | None = None

    async def next(self, seconds: float) -> Any:
        """The next item. Raises TimeoutError after `seconds`, and StopAsyncIteration."""
        self._task = self._task or asyncio.ensure_future(anext(self.stream))
        if not await _done_within(self._task, seconds):
            raise TimeoutError
        task, self._task = self._task, None
        return task.result()

    def forget(self) -> None:
        """Nobody will wait any more."""
        if self._task is not None:
            _forget(self._task)


def _forget(task: asyncio.Future[Any]) -> None:
    """Cancels a task that nobody waits for; its exception is of no interest."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()


async def listening(stream: AsyncIterator[Any], accept_s: float, silence_s: float) -> AsyncGenerator[Any, None]:
    """The caller's side: the items without the beats. Raises Silent.

    accept_s: until the first sign, which includes the wait in a router's queue; silence_s: between two signs.
    """
    accepted = False
    while True:
        try:
            item = await next_within(stream, silence_s if accepted else accept_s)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Silent(accepted) from None
        accepted = True
        if not isinstance(item, float):
            yield item
