"""Streams: every one of them ends in a way a client understands."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from serve_app.openai import stream
from serve_app.openai.errors import ApiError

CHUNK = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


def run(items: list[Any], deadline_s: float = 5.0, keep_alive_s: float = 5.0) -> list[str]:
    """The pieces a client gets. A float among the items is a pause in seconds, an exception is raised."""

    async def source() -> AsyncGenerator[Any, None]:
        for item in items:
            if isinstance(item, float):
                await asyncio.sleep(item)
            elif isinstance(item, Exception):
                raise item
            else:
                yield item

    def classify(error: BaseException) -> ApiError:
        return ApiError(503)

    async def collect() -> list[str]:
        wire = stream.wire(source(), "id-1", time.monotonic() + deadline_s, keep_alive_s, classify)
        return [piece async for piece in wire]

    return asyncio.run(collect())


def errors_of(pieces: list[str]) -> list[dict[str, Any]]:
    found = [json.loads(event[6:]) for piece in pieces for event in stream.split(piece) if '"error"' in event]
    return [document["error"] for document in found]


@pytest.mark.parametrize(
    "items",
    [
        [CHUNK, CHUNK, stream.DONE],
        [CHUNK, CHUNK],
        [[CHUNK, CHUNK + stream.DONE]],
        [CHUNK + CHUNK, [stream.DONE]],
    ],
)
def test_chunks_and_one_done(items: list[Any]) -> None:
    text = "".join(run(items))
    assert text == CHUNK + CHUNK + stream.DONE


def test_nothing_after_done() -> None:
    assert "".join(run([CHUNK, stream.DONE, CHUNK])) == CHUNK + stream.DONE


def test_a_replica_that_dies_ends_in_an_error_event() -> None:
    pieces = run([CHUNK, RuntimeError("pid=7 at 10.0.0.1")])
    (error,) = errors_of(pieces)
    assert error["code"] == "unavailable"
    assert "id-1" in error["message"]
    assert "10.0.0.1" not in "".join(pieces)
    assert "".join(pieces).endswith(stream.DONE)


def test_the_engines_error_event_is_cleaned() -> None:
    raw = 'data: {"error": {"message": "EngineCore at /opt/x died", "type": "InternalServerError", "code": 500}}\n\n'
    pieces = run([CHUNK, raw, stream.DONE])
    (error,) = errors_of(pieces)
    assert error["type"] == "server_error"
    assert "/opt/x" not in "".join(pieces)
    assert "".join(pieces).count(stream.DONE) == 1


def test_a_deadline_ends_the_stream() -> None:
    start = time.monotonic()
    pieces = run([CHUNK, 30.0, CHUNK], deadline_s=0.2)
    assert time.monotonic() - start < 3
    assert errors_of(pieces)[0]["code"] == "timeout"


def test_silence_is_filled_with_comments() -> None:
    pieces = run([0.35, CHUNK, stream.DONE], keep_alive_s=0.1)
    assert pieces.count(stream.KEEP_ALIVE) >= 2
    assert "".join(pieces).replace(stream.KEEP_ALIVE, "") == CHUNK + stream.DONE


def test_a_model_is_written_as_json() -> None:
    class Model:
        def model_dump_json(self) -> str:
            return '{"a":1}'

    assert stream.text_of([Model(), "data: x\n\n"]) == 'data: {"a":1}\n\ndata: x\n\n'


def test_a_client_that_leaves_ends_the_source() -> None:
    ended = asyncio.Event()

    async def source() -> AsyncGenerator[str, None]:
        try:
            while True:
                yield CHUNK
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async def scenario() -> None:
        wire = stream.wire(source(), "id", time.monotonic() + 9, 9, lambda error: ApiError(500))
        await anext(wire)
        await wire.aclose()
        await asyncio.wait_for(ended.wait(), 2)

    asyncio.run(scenario())
