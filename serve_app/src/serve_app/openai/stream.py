"""Server-sent events that always end in a way a client understands.

What the engine gives are texts of whole events (`data: …\\n\\n`), in lists when Ray has batched them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from serve_app.dropped import drop
from serve_app.openai import errors
from serve_app.openai.errors import ApiError

DONE = "data: [DONE]\n\n"
KEEP_ALIVE = ": keep-alive\n\n"
"""A comment: clients skip it, load balancers see traffic (most cut a silent connection after 60 s)."""


def event(document: dict[str, Any]) -> str:
    """One event."""
    return f"data: {json.dumps(document, separators=(',', ':'))}\n\n"


def text_of(item: Any) -> str:
    """An item of Ray's stream as text: a string, a pydantic model, or a list of either."""
    if isinstance(item, list):
        return "".join(text_of(one) for one in item)
    if isinstance(item, str):
        return item
    return f"data: {item.model_dump_json()}\n\n"


def split(text: str) -> list[str]:
    """Whole events of a text; what is left over at the end counts as one."""
    pieces = text.split("\n\n")
    return [piece + "\n\n" for piece in pieces if piece]


def error_in(piece: str) -> ApiError | None:
    """The engine's error in an event, fit for a client; None for every other event."""
    if not piece.startswith('data: {"error"'):
        return None
    try:
        inner = json.loads(piece[6:])["error"]
    except (ValueError, KeyError, TypeError):
        return None
    code = inner.get("code")
    return errors.from_engine(code if isinstance(code, int) else 500, str(inner.get("message", "")), inner.get("param"))


async def wire(
    items: AsyncGenerator[Any, None],
    request_id: str,
    deadline: float,
    keep_alive_s: float,
    classify: Callable[[BaseException], ApiError],
    watch: Callable[[str], bool] = lambda piece: True,
) -> AsyncGenerator[str, None]:
    """What goes to the client. Ends with [DONE] whatever happens; an error comes as an event before it.

    deadline: time.monotonic() by which the stream must be complete. classify: what to say of an exception, such as a
    replica whose process was killed: Ray LLM 2.60 ends the stream there as if it were complete. watch: sees each event
    of the engine's; false keeps it from the client.
    """
    pending: asyncio.Future[Any] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(items))
            left = deadline - time.monotonic()
            done, _ = await asyncio.wait({pending}, timeout=max(0.0, min(keep_alive_s, left)))
            if not done:
                if time.monotonic() >= deadline:
                    yield event(ApiError(504).body(request_id)) + DONE
                    return
                yield KEEP_ALIVE
                continue
            finished, pending = pending, None
            try:
                text = text_of(finished.result())
            except StopAsyncIteration:
                yield DONE
                return
            except Exception as error:  # noqa: BLE001 - whatever broke, the client gets an event
                yield event(classify(error).body(request_id)) + DONE
                return
            for piece in split(text):
                failure = error_in(piece)
                if failure is not None:
                    yield event(failure.body(request_id)) + DONE
                    return
                if piece == DONE:
                    yield DONE
                    return
                if watch(piece):
                    yield piece
    finally:
        await drop(pending, items)
