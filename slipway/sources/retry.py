"""When to try again, and how long to wait before: exponential backoff with jitter, Retry-After obeyed."""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass

RETRY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Answers that may be different a moment later."""


@dataclass(frozen=True)
class RetryPolicy:
    """tries: how often in a row without a new byte; first, most: seconds of the first and the longest wait;
    patience: the longest Retry-After, in seconds, that is waited for."""

    tries: int = 6
    first: float = 0.5
    most: float = 30.0
    patience: float = 300.0

    def delay(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait after the `failures`-th failure in a row, at least what the server asked for.

        Jitter takes away up to half: hundreds of clients that one outage stopped must not come back together.
        """
        backoff = min(self.most, self.first * 2.0 ** (failures - 1))
        jittered = backoff * (0.5 + random.random() / 2)  # noqa: S311 (no secret)
        return max(jittered, retry_after or 0.0)


PUSH_POLICY = RetryPolicy(tries=9, first=1.0, most=60.0)
"""A push ends a long build: it waits out some minutes of a registry's trouble (docker/build-push-action#1028)."""


def retry_after_seconds(value: str | None, now: float | None = None) -> float | None:
    """The Retry-After header in seconds from now: a number or an HTTP date (RFC 9110, 10.2.3). None if unusable."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return max(0.0, when.timestamp() - (time.time() if now is None else now))
