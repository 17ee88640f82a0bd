"""The real ingress (routes, gate, FastAPI application) in a real uvicorn process, over an engine that is none.

For what the ingress does itself. Nothing here says anything about engines: `python ingress.py PORT ENDPOINT-JSON`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionResponse, ModelCard
from serve_app.access.settings import Endpoint
from serve_app.app.routes import Ingress
from serve_app.observe.note import Note
from serve_app.openai import application


class Handle:
    """As much of a deployment handle as the ingress looks at."""

    def __init__(self) -> None:
        self.beating = self

    def options(self, **_: Any) -> Handle:
        return self

    def remote(self, body: Any, raw: Any, kind: str, beat_s: float) -> Answer:
        return Answer(body, raw)


class Answer:
    """As much of a streaming response. The prompt says what happens: seconds to wait, then words."""

    def __init__(self, body: Any, raw: Any) -> None:
        self.items = self._items(body, raw)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> Any:
        return await anext(self.items)

    def cancel(self) -> None:
        """Nothing to cancel."""

    async def _items(self, body: Any, raw: Any) -> AsyncGenerator[Any, None]:
        yield time.monotonic()
        text = getattr(body, "prompt", None) or body.messages[-1]["content"]
        seconds = float(text) if text.replace(".", "", 1).isdigit() else 0.0
        if text == "boom":
            raise RuntimeError("inner secret 10.1.2.3")
        if seconds and not body.stream:
            await asyncio.sleep(seconds)
        yield Note({"prefill": "remote"})
        base = {"id": raw.headers.get("traceparent", "none"), "model": body.model, "created": 1}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        if not body.stream:
            message = {"role": "assistant", "content": "one two three"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            yield ChatCompletionResponse(**base, choices=[choice], usage=usage)
            return
        for word in ("one", "two", "three"):
            chunk = {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]}
            yield f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"
            await asyncio.sleep(seconds / 3)
        if body.stream_options and body.stream_options.include_usage:
            chunk = {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}
            yield f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n"
        yield "data: [DONE]\n\n"


class Alone(Ingress):
    """Without Serve: one model, whose handle is the one above."""

    def _get_configured_serve_handle(self, model_id: str) -> Handle:
        super()._get_configured_serve_handle(model_id)
        return Handle()


def make(endpoint: Endpoint) -> Any:
    """The application, with the routes that matter here."""
    card = ModelCard(id="demo", object="model", owned_by="test", permission=[], metadata={})
    ingress = Alone({"demo": Handle()}, {"demo": card}, endpoint=endpoint)
    app = application.make(endpoint)
    app.post("/v1/chat/completions")(ingress.chat)
    app.post("/v1/completions")(ingress.completions)
    app.get("/v1/models")(ingress.models)

    async def own_metrics() -> Any:
        from serve_app.observe import metrics
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(metrics.text())

    async def drain() -> Any:
        return await ingress.drain()

    async def ready() -> Any:
        from starlette.responses import JSONResponse

        return JSONResponse(ingress.live.state(), status_code=503 if ingress.live.draining else 200)

    app.get("/metrics")(own_metrics)
    app.get("/ready")(ready)
    app.get("/health")(ready)
    app.get("/test-drain")(drain)
    return app


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    uvicorn.run(make(Endpoint.of(given)), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
