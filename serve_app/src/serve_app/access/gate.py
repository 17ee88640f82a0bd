"""The outermost layer of the ingress: an ASGI application around the others.

Each HTTP request gets an id, is let in or turned away, and leaves one line in the log. What is turned away here has
not been read: a body that is too long ends in 413 before it is parsed, and 429 costs no more than its headers.
Format: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from serve_app.access import live
from serve_app.access.live import Live, Ticket
from serve_app.access.record import Record
from serve_app.access.settings import Endpoint
from serve_app.observe import log, trace
from serve_app.openai.errors import ApiError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
OPEN = ("/health", "/ready")
_ID = re.compile(r"^[!-~]{1,256}$")


class Gate:
    """app: the next layer. now: what this process knows; its own when not given."""

    def __init__(self, app: Any, endpoint: Endpoint, now: Live | None = None) -> None:
        self.app = app
        self.endpoint = endpoint
        self.live = now or live.here(endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, request or lifespan."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # no route of ours is a websocket
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.lower(): value for name, value in scope.get("headers", [])}
        path = str(scope["path"]).removeprefix(scope.get("root_path", "")) or "/"
        record = Record(_request_id(headers.get(b"x-request-id")), scope["method"], path)
        with trace.server(f"{record.method} {record.route}", headers.get(b"traceparent")) as span:
            record.trace_id = span.trace_id
            scope["headers"] = _with(scope.get("headers", []), record.request_id, span.headers())
            scope.setdefault("state", {}).update(request_id=record.request_id, record=record)
            outgoing = _Outgoing(send, record)
            ticket: Ticket | None = None
            try:
                ticket = self._enter(record, headers, scope["method"])
                await self.app(scope, self._bounded(receive), outgoing)
                if not outgoing.finished:
                    record.status = 499  # the client went away
            except ApiError as error:
                await outgoing.error(error)
            except BaseException as error:
                record.error = record.error or type(error).__name__
                record.status = record.status if outgoing.finished else 500 if isinstance(error, Exception) else 499
                raise
            finally:
                if ticket is not None:
                    self.live.leave(ticket, record.tokens)
                span.done(record)
                log.finished(record, self.endpoint.log_requests)

    def _enter(self, record: Record, headers: dict[bytes, bytes], method: str) -> Ticket | None:
        """Raises ApiError for a request that must not go on. A ticket for one that computes."""
        if record.path in OPEN:
            return None
        if record.path == "/metrics":
            if self.endpoint.metrics == "off":
                raise ApiError(404, f"Unknown request: {method} {record.path}")
            if self.endpoint.metrics == "open":
                return None
        key = self.live.key_of(_text(headers.get(b"authorization")))
        record.key = key.name if key else None
        length = _length(headers.get(b"content-length"))
        if self.endpoint.max_body_bytes is not None and length > self.endpoint.max_body_bytes:
            raise ApiError(413, f"The request body is longer than {self.endpoint.max_body_bytes} bytes.")
        return None if method in ("GET", "HEAD", "OPTIONS") else self.live.admit(key, length)

    def _bounded(self, receive: Receive) -> Receive:
        """Counts a body that comes without a length, or with a wrong one."""
        limit = self.endpoint.max_body_bytes
        seen = 0

        async def bounded() -> Any:
            nonlocal seen
            message = await receive()
            if limit is not None and message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > limit:
                    # FastAPI lets this one through while it reads a body; the application answers it.
                    raise HTTPException(413, f"The request body is longer than {limit} bytes.")
            return message

        return bounded


class _Outgoing:
    """Passes an answer on: puts the request's id into it, and notes its status and its end."""

    def __init__(self, send: Send, record: Record) -> None:
        self.send = send
        self.record = record
        self.finished = False

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.record.status = message["status"]
            given = [(name, value) for name, value in message.get("headers", []) if name.lower() != b"x-request-id"]
            message = {**message, "headers": [*given, (b"x-request-id", self.record.request_id.encode())]}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.finished = True
        await self.send(message)

    async def error(self, error: ApiError) -> None:
        """An answer of the gate's own."""
        self.record.error = self.record.error or error.body()["error"]["code"]
        if self.record.status:
            return  # an answer has begun: nothing can be said any more
        headers = {"content-type": "application/json", **error.headers}
        if error.retry_after_s is not None:
            headers["retry-after"] = str(error.retry_after_s)
        body = json.dumps(error.body(self.record.request_id)).encode()
        headers["content-length"] = str(len(body))
        await self({"type": "http.response.start", "status": error.status,
                    "headers": [(name.encode(), value.encode()) for name, value in headers.items()]})  # fmt: skip
        await self({"type": "http.response.body", "body": body})


def _request_id(given: bytes | None) -> str:
    """The client's own where it is printable and short, else a new one."""
    text = _text(given) or ""
    return text if _ID.match(text) else str(uuid.uuid4())


def _with(headers: Any, request_id: str, more: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """The headers with the request's id and the trace's in place of what came."""
    new = {b"x-request-id": request_id.encode(), **{name.encode(): value.encode() for name, value in more.items()}}
    return [(name, value) for name, value in headers if name.lower() not in new] + list(new.items())


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _length(value: bytes | None) -> int:
    text = _text(value) or ""
    return int(text) if text.isdigit() and len(text) < 20 else 0
