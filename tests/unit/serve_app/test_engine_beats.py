"""Signs of life: slow is not dead, and silence is noticed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from serve_app.engine import beats
from serve_app.engine.beats import Silent, beating, listening


async def engine(pauses: list[float], ended: list[bool]) -> AsyncGenerator[Any, None]:
    try:
        for number, pause in enumerate(pauses):
            await asyncio.sleep(pause)
            yield f"item {number}"
    finally:
        ended.append(True)


async def started(pauses: list[float], ended: list[bool]) -> AsyncGenerator[Any, None]:
    return engine(pauses, ended)


def test_beats_come_at_once_and_in_silence() -> None:
    async def scenario() -> list[Any]:
        return [item async for item in beating(started([0.25, 0], []), 0.1)]

    found = asyncio.run(scenario())
    assert isinstance(found[0], float)
    assert [item for item in found if isinstance(item, str)] == ["item 0", "item 1"]
    assert sum(isinstance(item, float) for item in found) >= 3
    assert found[:3] == sorted(found[:3])


def test_slow_is_not_dead() -> None:
    async def scenario() -> list[Any]:
        stream = beating(started([0.6, 0.6], []), 0.05)
        return [item async for item in listening(stream, 0.3, 0.3)]

    assert asyncio.run(scenario()) == ["item 0", "item 1"]


def test_the_callers_own_standstill_is_not_the_replicas_silence() -> None:
    """What came while this process stood still counts: it was only not read yet."""

    async def replica(arrived: asyncio.Event) -> AsyncGenerator[Any, None]:
        yield 1.0
        await arrived.wait()
        for _ in range(10):  # an answer of Ray's passes several callbacks
            await asyncio.sleep(0)
        yield "item"

    async def scenario() -> list[Any]:
        loop, arrived, found = asyncio.get_running_loop(), asyncio.Event(), []
        sender = threading.Timer(0.7, lambda: loop.call_soon_threadsafe(arrived.set))
        sender.start()
        loop.call_later(0.1, time.sleep, 1.5)
        async for item in listening(replica(arrived), 1.2, 1.2):
            found.append(item)
        return found

    assert asyncio.run(scenario()) == ["item"]


@pytest.mark.parametrize("accepted", [True, False])
def test_silence_is_noticed(accepted: bool) -> None:
    async def cut() -> AsyncGenerator[Any, None]:
        if accepted:
            yield 1.0
            yield "item"
        await asyncio.sleep(60)

    async def scenario() -> list[Any]:
        found = []
        with pytest.raises(Silent) as caught:
            async for item in listening(cut(), 0.2, 0.1):
                found.append(item)
        assert caught.value.accepted is accepted
        return found

    assert asyncio.run(scenario()) == (["item"] if accepted else [])


def test_a_call_that_can_not_be_cancelled_does_not_hold_the_caller_up() -> None:
    async def stubborn() -> AsyncGenerator[Any, None]:
        for _ in range(30):
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue
        yield "late"

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(Silent):
            async for _ in listening(stubborn(), 0.2, 0.2):
                pass
        return loop.time() - start

    assert asyncio.run(scenario()) < 1.0


def test_leaving_ends_the_engines_work() -> None:
    ended: list[bool] = []

    async def scenario() -> None:
        stream = beating(started([0, 60], ended), 0.05)
        assert isinstance(await anext(stream), float)
        assert await anext(stream) == "item 0"
        await stream.aclose()

    asyncio.run(scenario())
    assert ended == [True]


def test_the_engines_exception_is_passed_on() -> None:
    async def broken() -> AsyncGenerator[Any, None]:
        yield "item"
        raise ValueError("boom")

    async def start() -> AsyncGenerator[Any, None]:
        return broken()

    async def scenario() -> None:
        with pytest.raises(ValueError, match="boom"):
            async for _ in listening(beating(start(), 1.0), 1.0, 1.0):
                pass

    asyncio.run(scenario())


def test_a_wait_that_was_given_up_loses_no_item() -> None:
    async def slow() -> AsyncGenerator[int, None]:
        await asyncio.sleep(0.05)
        yield 1
        yield 2

    async def run() -> list[int]:
        kept = beats.Kept(slow())
        with pytest.raises(TimeoutError):
            await kept.next(0.01)
        waiting = asyncio.ensure_future(kept.next(1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return [await kept.next(1), await kept.next(1)]

    assert asyncio.run(run()) == [1, 2]


def test_what_a_cancelled_call_answers_is_not_its_result() -> None:
    """vLLM's servers catch the cancellation and answer "Client disconnected"."""
    ended: list[bool] = []

    async def vllm() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(True)
            return "Client disconnected"
        return "late"

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await beats.within(vllm(), 0.05)

    asyncio.run(scenario())
    assert ended == [True]


def test_a_result_in_time_is_given_and_an_end_is_an_end() -> None:
    async def two() -> AsyncGenerator[str, None]:
        yield "item"

    async def scenario() -> str:
        items = two()
        found: str = await beats.within(anext(items), 1)
        with pytest.raises(StopAsyncIteration):
            await beats.within(anext(items), 1)
        return found

    assert asyncio.run(scenario()) == "item"
