"""The prefill side: a replica that computes prompts and says that it is alive while it does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator
from typing import Any

from ray.llm._internal.serve.serving_patterns.prefill_decode.pd_server import DPPDPrefillServer, PDPrefillServer

from serve_app.engine.server import ServerMixin


class PrefillMixin(ServerMixin):
    """What is added to Ray's prefill server."""

    role = "prefill"

    async def prefill(
        self, kind: str, request: Any, raw_request_info: Any, beat_s: float
    ) -> AsyncGenerator[Any, None]:
        """Yields a beat at once and every `beat_s` seconds while the engine works, then the engine's one answer.

        kind: "chat" or "completions". A beat is this node's clock (time.monotonic()), which lease.py needs. Beats come
        from the very replica that works on the request, over the same connection as the answer: their absence means
        that the answer won't come either.
        """
        yield time.monotonic()
        engine = await getattr(self, kind)(request, raw_request_info)
        answer = asyncio.ensure_future(anext(engine))
        try:
            while not (await asyncio.wait({answer}, timeout=beat_s))[0]:
                yield time.monotonic()
            yield answer.result()
        finally:
            # Decode does not want it any more: ending the generator makes the engine abort the request.
            answer.cancel()
            with contextlib.suppress(BaseException):
                await answer
            with contextlib.suppress(BaseException):
                await engine.aclose()

    async def alive(self) -> dict[str, Any]:
        """For a probe: the engine works. Raises what the engine's health check raises."""
        await self.check_health()  # type: ignore[attr-defined]
        return {"pid": os.getpid()}


class PrefillServer(PrefillMixin, PDPrefillServer):  # type: ignore[misc]
    """Prefill with one engine a replica."""


class DPPrefillServer(PrefillMixin, DPPDPrefillServer):  # type: ignore[misc]
    """Prefill with a data-parallel gang of engines."""
