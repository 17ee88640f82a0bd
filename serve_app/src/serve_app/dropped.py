"""Ends an asynchronous generator that is not wanted any more, whatever it does about that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any


async def drop(pending: asyncio.Future[Any] | None, items: AsyncGenerator[Any, None] | None = None) -> None:
    """Cancels the step that is awaited and closes the generator, so that an engine aborts the request.

    Nothing that either of them raises or gives is of interest. A step has to have ended before its generator is closed.
    """
    if pending is not None:
        pending.cancel()
        with contextlib.suppress(BaseException):
            await pending
    if items is not None:
        with contextlib.suppress(BaseException):
            await items.aclose()
