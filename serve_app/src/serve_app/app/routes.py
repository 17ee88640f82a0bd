"""What the ingress does with a request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionRequest, ErrorResponse
from ray.llm._internal.serve.core.ingress.ingress import OpenAiIngress
from ray.llm._internal.serve.core.ingress.utils import (
    NON_STREAMING_RESPONSE_TYPES,
    _sanitize_chat_completion_request,
)
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.serve._private.http_util import session_id_from_headers
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from starlette.responses import JSONResponse, Response, StreamingResponse

from serve_app.access import cut, live, shape
from serve_app.access.record import Record
from serve_app.access.settings import Endpoint
from serve_app.dropped import drop
from serve_app.engine import beats
from serve_app.observe import metrics
from serve_app.observe.merge import CONTENT_TYPE, merge
from serve_app.observe.note import Note
from serve_app.openai import application, errors, refuse, stream, usage
from serve_app.openai.errors import ApiError
from serve_app.pd.replicas import count_replicas

logger = logging.getLogger("ray.serve")
RETRY_AFTER_S = 5
METRICS_S = 5.0
BEATING = ("chat", "completions")


class Ingress(OpenAiIngress):  # type: ignore[misc]
    """Ray's ingress with an end to every request and OpenAI's errors."""

    def __init__(self, *args: Any, endpoint: Endpoint | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits = endpoint or Endpoint()
        self.live = live.here(self.limits)

    async def _process_llm_request(self, body: Any, call_method: str, raw_request: Any = None) -> Response:
        """One generation. Overrides Ray's, which has no end, no retry, and streams that break off silently."""
        record = _record(raw_request)
        record.model, record.stream = body.model, bool(getattr(body, "stream", False))
        refuse.check(body)
        if isinstance(body, ChatCompletionRequest):
            body = _sanitize_chat_completion_request(body)  # before anybody reads it: parts of it can be read once only
        shape.check(body, self.limits)
        hidden = usage.ask(body)
        deadline = time.monotonic() + self.limits.request_s
        streamed = record.stream
        items = cut.until(self._answers(body, call_method, raw_request), self.live.cut)
        patience = self.limits.keep_alive_s if streamed else self.limits.request_s
        first = asyncio.ensure_future(anext(items))
        try:
            done, _ = await asyncio.wait({first}, timeout=min(patience, deadline - time.monotonic()))
        except asyncio.CancelledError:
            await drop(first, items)
            raise
        if not done:
            if not streamed:
                await drop(first, items)
                raise ApiError(504)
            # A long prefill: the status is given away, so that the connection is not silent any longer.
            return self._streaming(_after(first, items), record, hidden, deadline)
        head = _first(first)
        one = head[0] if isinstance(head, list) and head else head
        if isinstance(one, ErrorResponse):
            raise errors.from_engine(one.error.code, one.error.message, getattr(one.error, "param", None))
        if isinstance(one, NON_STREAMING_RESPONSE_TYPES):
            await _finish(items)
            answer = one.model_dump()
            record.first()
            record.usage = answer.get("usage")
            return JSONResponse(answer)
        if isinstance(one, str) and (failure := stream.error_in(one)) is not None:
            await drop(None, items)
            raise failure
        return self._streaming(_chain(head, items), record, hidden, deadline)

    def _streaming(
        self, items: AsyncGenerator[Any, None], record: Record, hidden: bool, deadline: float
    ) -> StreamingResponse:
        watch = usage.Watch(record, hidden)
        events = stream.wire(items, record.request_id, deadline, self.limits.keep_alive_s, classify, watch)
        # no-transform and X-Accel-Buffering: proxies must neither compress nor collect the events.
        headers = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _answers(self, body: Any, call_method: str, raw_request: Any) -> AsyncGenerator[Any, None]:
        """The engine's items. Where nothing has come yet when a replica dies, once more on another one."""
        for attempt in (1, 2):
            model = await self._get_model_id(body.model)
            if count_replicas(self._get_configured_serve_handle(model)) == 0:
                raise ApiError(503, retry_after_s=RETRY_AFTER_S)
            began = False
            items = self._get_response(body=body, call_method=call_method, raw_request=raw_request)
            try:
                async for item in items:
                    began = True
                    yield item
                return
            except Exception as error:
                if began or attempt == 2 or not _may_retry(error):
                    raise
                logger.warning("%s: %s, trying once more", application.request_id(raw_request), type(error).__name__)
                await asyncio.sleep(0.2)  # Serve takes the dead replica off its list
            finally:
                with contextlib.suppress(BaseException):
                    await items.aclose()

    async def _get_response(self, *, body: Any, call_method: str, raw_request: Any = None) -> AsyncGenerator[Any, None]:
        """Ray's, for generations with signs of life: `beating` is called instead of `call_method` itself."""
        if call_method not in BEATING:
            async for item in super()._get_response(body=body, call_method=call_method, raw_request=raw_request):
                yield item
            return
        handle = self._get_configured_serve_handle(await self._get_model_id(body.model))
        session = session_id_from_headers(raw_request.headers) if raw_request is not None else None
        if session:
            handle = handle.options(session_id=session)
        raw = RawRequestInfo.from_starlette_request(raw_request) if raw_request is not None else None
        answer = handle.beating.remote(body, raw, call_method, self.limits.beat_s)
        finished = False
        try:
            async for item in beats.listening(answer, self.limits.accept_s, self.limits.silence_s):
                if isinstance(item, Note):
                    _record(raw_request).facts.update(item.facts)
                else:
                    yield item
            finished = True
        finally:
            if not finished:
                with contextlib.suppress(Exception):
                    answer.cancel()

    # ---- metrics ----

    async def metrics(self) -> Response:
        """GET /metrics: this process's and every engine replica's, in Prometheus' text format."""
        handles = [self._get_configured_serve_handle(name) for name in self._model_cards]
        parts = [part for found in await asyncio.gather(*map(_engine_metrics, handles)) for part in found]
        own = ({"role": "ingress", "replica": serve.get_replica_context().replica_tag}, metrics.text())
        return Response(merge([own, *parts]), media_type=CONTENT_TYPE)

    # ---- health ----

    async def health(self) -> Response:
        """GET /health: every model has a replica that can answer. 200 or 503."""
        missing = [name for name in self._model_cards if count_replicas(self._get_configured_serve_handle(name)) == 0]
        return JSONResponse({"status": "unavailable" if missing else "ok", "missing": missing},
                            status_code=503 if missing else 200)  # fmt: skip

    async def ready(self) -> Response:
        """GET /ready: 200 {"ready": true, "degraded": []}, or 503; a role that is away stands in "degraded"."""
        states = {name: await self._state(name) for name in self._model_cards}
        degraded = sorted({role for state in states.values() for role in state["degraded"]})
        ready = all(state["ready"] for state in states.values()) and not self.live.draining
        body = {"ready": ready, "degraded": degraded, **self.live.state(), "models": states}
        return JSONResponse(body, status_code=200 if ready else 503)

    async def drain(self, on: bool = True) -> dict[str, Any]:
        """Takes no new requests any more; what still runs. Called through Serve, never by HTTP (drain/cluster.py)."""
        self.live.drain(on)
        return dict(self.live.state())

    async def end(self) -> dict[str, Any]:
        """Ends what still runs, with an error that says so."""
        self.live.end()
        return dict(self.live.state())

    async def in_flight(self) -> dict[str, Any]:
        """What runs."""
        return dict(self.live.state())

    async def _state(self, name: str) -> dict[str, Any]:
        handle = self._get_configured_serve_handle(name)
        if count_replicas(handle) == 0:
            return {"ready": False, "degraded": ["decode"]}
        try:
            state: dict[str, Any] = await asyncio.wait_for(handle.options(stream=False).state.remote(), 3.0)
        except Exception as error:  # noqa: BLE001 - a replica that can't say how it is, is not ready
            logger.warning("state of %s: %s", name, type(error).__name__)
            return {"ready": False, "degraded": ["decode"]}
        return state


async def _engine_metrics(handle: Any) -> list[tuple[dict[str, str], str]]:
    """A model's; what does not answer in time is left out."""
    if count_replicas(handle) == 0:
        return []
    try:
        found = await handle.broadcast("metrics").results_async(timeout_s=METRICS_S, return_exceptions=True)
        others = await asyncio.wait_for(handle.options(stream=False).other_metrics.remote(), METRICS_S + 1)
    except Exception as error:  # noqa: BLE001 - metrics of what still answers are better than none
        logger.warning("metrics: %s", type(error).__name__)
        return []
    return [part for one in [*found, others] if not isinstance(one, BaseException) for part in one]


def _record(raw_request: Any) -> Record:
    """What the gate notes of a request."""
    found: Record | None = getattr(getattr(raw_request, "state", None), "record", None)
    return found or Record(application.request_id(raw_request) or "", "POST", "")


def classify(error: BaseException) -> ApiError:
    """What a client is told of an exception."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BackPressureError):
        return ApiError(429, retry_after_s=RETRY_AFTER_S)
    if isinstance(error, (beats.Silent, RayActorError, DeploymentUnavailableError, ReplicaUnavailableError)):
        return ApiError(503, retry_after_s=RETRY_AFTER_S)
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return ApiError(504)
    status = getattr(error, "status_code", None)
    return errors.from_engine(status, str(getattr(error, "detail", "") or getattr(error, "message", "")))


def _may_retry(error: BaseException) -> bool:
    """True where the replica is the reason, not the request: it is gone, or its engine is dead."""
    if isinstance(error, (beats.Silent, RayActorError, ReplicaUnavailableError)):
        return True
    return isinstance(error, RayTaskError) and "EngineDeadError" in str(type(error).__mro__)


def _first(future: asyncio.Future[Any]) -> Any:
    try:
        return future.result()
    except StopAsyncIteration:
        raise ApiError(500) from None
    except ApiError:
        raise
    except Exception as error:
        known = classify(error)
        if known.status >= 500:
            logger.error("request failed", exc_info=error)
        raise known from error


async def _finish(items: AsyncGenerator[Any, None]) -> None:
    """Lets a generator that has given all it has come to its end, so that nothing is cancelled."""

    async def rest() -> None:
        async for _ in items:
            pass

    with contextlib.suppress(Exception):
        await asyncio.wait_for(rest(), 1.0)
    await drop(None, items)


async def _chain(head: Any, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    async with contextlib.aclosing(items):
        yield head
        async for item in items:
            yield item


async def _after(first: asyncio.Future[Any], items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """The items where the first one is still awaited; an error response in it becomes an exception."""
    async with contextlib.aclosing(items):
        head = await first
        one = head[0] if isinstance(head, list) and head else head
        if isinstance(one, ErrorResponse):
            raise errors.from_engine(one.error.code, one.error.message)
        yield head
        async for item in items:
            yield item
