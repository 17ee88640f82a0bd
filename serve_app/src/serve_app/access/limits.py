"""How much one key may ask: requests and tokens a minute, requests at a time. Pure but for the clock it is given.

A minute's worth can be used at once and then comes back evenly (a token bucket). What a request will take is known
only when it has ended: it is let in on an estimate, and the difference is settled then. A bucket may go below zero, and
the next request waits until it is above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from serve_app.access.keys import Key

BUSY_S = 1
"""Retry-After where requests of the same key have to end first."""


@dataclass
class Bucket:
    """limit: a minute's worth, also the most that is kept."""

    limit: float
    level: float
    at: float

    def take(self, amount: float, now: float) -> float:
        """0 and taken, or the seconds until it would be there. More than a minute's worth needs a full bucket."""
        self.level = min(self.limit, self.level + (now - self.at) * self.limit / 60)
        self.at = now
        missing = min(amount, self.limit) - self.level
        if missing > 0:
            return missing * 60 / self.limit
        self.level -= amount
        return 0.0

    def settle(self, amount: float) -> None:
        """Takes more, or gives back when `amount` is negative."""
        self.level = min(self.limit, self.level - amount)


@dataclass(frozen=True)
class Refused(Exception):
    """what: the limit that was reached. retry_after_s: whole seconds, at least 1."""

    what: str
    retry_after_s: int


class Meter:
    """One key's use. share: this process's part of the limits, when there are several."""

    def __init__(self, key: Key, now: float, share: float = 1.0) -> None:
        self.key = key
        self.running = 0
        self.concurrent = None if key.concurrent is None else max(1, math.ceil(key.concurrent * share))
        self.requests = self._bucket(key.requests_per_minute, now, share)
        self.tokens = self._bucket(key.tokens_per_minute, now, share)

    @staticmethod
    def _bucket(limit: int | None, now: float, share: float) -> Bucket | None:
        return None if limit is None else Bucket(max(1.0, limit * share), max(1.0, limit * share), now)

    def admit(self, estimate: int, now: float) -> None:
        """Counts a request in, or raises Refused. estimate: tokens."""
        if self.concurrent is not None and self.running >= self.concurrent:
            raise Refused(f"{self.key.concurrent} requests at a time", BUSY_S)
        wait = self.tokens.take(estimate, now) if self.tokens else 0.0
        if wait:
            raise Refused(f"{self.key.tokens_per_minute} tokens per minute", math.ceil(wait))
        wait = self.requests.take(1, now) if self.requests else 0.0
        if wait:
            if self.tokens:
                self.tokens.settle(-estimate)
            raise Refused(f"{self.key.requests_per_minute} requests per minute", math.ceil(wait))
        self.running += 1

    def ended(self, estimate: int, tokens: int | None) -> None:
        """Counts a request out. tokens: what it took, None when that was never known."""
        self.running -= 1
        if self.tokens and tokens is not None:
            self.tokens.settle(tokens - estimate)


class Meters:
    """A meter for each key. parts: how many processes share the limits, asked each time a meter is made."""

    def __init__(self, clock: Callable[[], float], parts: Callable[[], int] = lambda: 1) -> None:
        self.clock = clock
        self.parts = parts
        self._by_name: dict[str, Meter] = {}

    def of(self, key: Key) -> Meter:
        """The key's meter. Changed limits begin anew, with what runs now."""
        meter = self._by_name.get(key.name)
        if meter is None or meter.key != key:
            running = meter.running if meter else 0
            meter = self._by_name[key.name] = Meter(key, self.clock(), 1 / max(1, self.parts()))
            meter.running = running
        return meter

    def ended(self, key: Key, estimate: int, tokens: int | None) -> None:
        """Counts a request of `key` out, by whatever meter the key has now."""
        self._by_name[key.name].ended(estimate, tokens)
