"""What one ingress process knows while it runs: the keys, their use, the requests in flight, and whether it drains."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from serve_app.access.keys import Key, KeyRing
from serve_app.access.limits import Meters, Refused
from serve_app.access.settings import Endpoint
from serve_app.openai.errors import ApiError

BUSY_S = 1
DRAIN_RETRY_S = 10
BYTES_PER_TOKEN = 4
"""For the estimate of a prompt before it is tokenized; what was really used is settled at the end."""


@dataclass
class Ticket:
    """A request that was let in. estimate: tokens it was let in on."""

    key: Key | None
    estimate: int


class Live:
    """endpoint: what is allowed. clock: seconds. parts: ingress processes that share the limits."""

    def __init__(
        self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic, parts: Callable[[], int] = lambda: 1
    ) -> None:
        self.endpoint = endpoint
        self.ring = KeyRing(endpoint.keys_file, clock) if endpoint.keys_file else None
        self.clock = clock
        self.parts = parts
        self.meters = Meters(clock, parts)
        self.in_flight = 0
        self.draining = False
        self.cut = asyncio.Event()
        self.on_change: Callable[[Live], None] = lambda _: None

    def key_of(self, authorization: str | None) -> Key | None:
        """The key of a request's Authorization header; None where no key is asked for. Raises ApiError 401."""
        if self.ring is None:
            return None
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise unauthorized("You didn't provide an API key. Send it in the Authorization header: Bearer KEY.")
        key = self.ring.find(secret.strip())
        if key is None:
            raise unauthorized("Incorrect API key provided.")
        return key

    def admit(self, key: Key | None, body_bytes: int) -> Ticket:
        """Lets a request in. Raises ApiError: 503 while draining, 429 where a limit is reached."""
        if self.draining:
            raise ApiError(503, retry_after_s=DRAIN_RETRY_S, code="draining")
        limit = self.endpoint.max_in_flight
        if limit is not None and self.in_flight >= math.ceil(limit / max(1, self.parts())):
            raise ApiError(429, retry_after_s=BUSY_S)
        estimate = max(1, body_bytes // BYTES_PER_TOKEN)
        if key is not None:
            try:
                self.meters.of(key).admit(estimate, self.clock())
            except Refused as refused:
                raise ApiError(429, f"Rate limit reached: {refused.what}.", code="rate_limit_exceeded",
                               retry_after_s=refused.retry_after_s) from None  # fmt: skip
        self.in_flight += 1
        self.on_change(self)
        return Ticket(key, estimate)

    def leave(self, ticket: Ticket, tokens: int | None) -> None:
        """A request has ended. tokens: what it took, None when that was never known."""
        self.in_flight -= 1
        self.on_change(self)
        if ticket.key is not None:
            self.meters.ended(ticket.key, ticket.estimate, tokens)

    def drain(self, on: bool = True) -> None:
        """Takes no new requests any more, or again."""
        self.draining = on
        if not on:
            self.cut.clear()
        self.on_change(self)

    def end(self) -> None:
        """Ends what still runs (access/cut.py)."""
        self.cut.set()

    def state(self) -> dict[str, object]:
        """For /ready and `serve_app drain`."""
        return {"draining": self.draining, "in_flight": self.in_flight}


def unauthorized(message: str) -> ApiError:
    """A 401 as OpenAI's."""
    return ApiError(401, message, code="invalid_api_key", headers={"www-authenticate": "Bearer"})


@functools.cache
def here(endpoint: Endpoint) -> Live:
    """The one of this process: the gate and the routes are made in different places."""
    from serve_app.observe import metrics

    found = Live(endpoint, parts=_replicas)
    found.on_change = metrics.of_live
    return found


def _replicas() -> int:
    """How many ingress replicas there are, as Serve tells each of them."""
    from ray import serve

    try:
        return int(serve.get_replica_context().world_size)
    except Exception:  # noqa: BLE001 - not in a replica: a test, or a Serve that doesn't say
        return 1
