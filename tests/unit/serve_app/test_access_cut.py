"""What a drain's end does to requests that still run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from serve_app.access.cut import until
from serve_app.openai.errors import ApiError


async def engine(count: int, ended: list[bool]) -> AsyncGenerator[str, None]:
    try:
        for number in range(count):
            yield f"item {number}"
        if count < 3:
            await asyncio.sleep(60)
    finally:
        ended.append(True)


def test_what_ends_by_itself_is_not_touched() -> None:
    async def scenario() -> list[str]:
        return [item async for item in until(engine(3, []), asyncio.Event())]

    assert asyncio.run(scenario()) == ["item 0", "item 1", "item 2"]


def test_a_cut_is_an_error_and_stops_the_engine() -> None:
    ended: list[bool] = []

    async def scenario() -> list[str]:
        cut, found = asyncio.Event(), []
        asyncio.get_running_loop().call_later(0.05, cut.set)
        with pytest.raises(ApiError) as caught:
            async for item in until(engine(2, ended), cut):
                found.append(item)
        assert (caught.value.status, caught.value.code) == (503, "stopping")
        assert caught.value.retry_after_s
        return found

    assert asyncio.run(scenario()) == ["item 0", "item 1"]
    assert ended == [True]


def test_a_request_that_comes_after_the_cut_is_told_at_once() -> None:
    async def scenario() -> None:
        cut = asyncio.Event()
        cut.set()
        with pytest.raises(ApiError):
            async for _ in until(engine(0, []), cut):
                pass

    asyncio.run(scenario())


def test_a_client_that_leaves_stops_the_engine() -> None:
    ended: list[bool] = []

    async def scenario() -> None:
        items = until(engine(2, ended), asyncio.Event())
        assert await anext(items) == "item 0"
        await items.aclose()

    asyncio.run(scenario())
    assert ended == [True]
