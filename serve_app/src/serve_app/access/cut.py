"""Ends what still runs when a drain's time is over: each request gets an error that a client understands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from serve_app.dropped import drop
from serve_app.openai.errors import ApiError

RETRY_AFTER_S = 10


async def until(items: AsyncGenerator[Any, None], cut: asyncio.Event) -> AsyncGenerator[Any, None]:
    """The items. Raises ApiError 503 once `cut` is set; the generator is closed either way, so that engines stop."""
    stop = asyncio.ensure_future(cut.wait())
    step: asyncio.Future[Any] | None = None
    try:
        while True:
            step = asyncio.ensure_future(anext(items))
            await asyncio.wait({step, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                raise ApiError(503, "The service is stopping; send the request again.", code="stopping",
                               retry_after_s=RETRY_AFTER_S)  # fmt: skip
            finished, step = step, None
            try:
                item = finished.result()
            except StopAsyncIteration:
                return
            yield item
    finally:
        stop.cancel()
        await drop(step, items)
