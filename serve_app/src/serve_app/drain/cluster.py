"""Drains applications through Serve: their ingress replicas are told, and asked what still runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

ANSWER_S = 3.0
POLL_S = 0.25


def tell(applications: Iterable[str], on: bool = True) -> int:
    """Tells every ingress replica; how many requests run. One that does not answer has none that could end."""
    return sum(_ask(name, "drain", on) for name in applications)


def running(applications: Iterable[str]) -> int:
    """How many requests run."""
    return sum(_ask(name, "in_flight") for name in applications)


def wait(
    applications: Iterable[str], deadline_s: float, ask: Callable[[Iterable[str]], int] = running,
    clock: Callable[[], float] = time.monotonic, pause: Callable[[float], None] = time.sleep,
) -> int:  # fmt: skip
    """Until nothing runs, `deadline_s` seconds at most; how many requests are left."""
    end = clock() + deadline_s
    left = ask(applications)
    while left and clock() < end:
        pause(POLL_S)
        left = ask(applications)
    return left


def _ask(application: str, method: str, *args: Any) -> int:
    from ray import serve

    try:
        answer = serve.get_app_handle(application).broadcast(method, *args)
        found = answer.results(timeout_s=ANSWER_S, return_exceptions=True)
    except Exception:  # noqa: BLE001 - no such application, no replica, or not an ingress of ours
        return 0
    return sum(int(one["in_flight"]) for one in found if isinstance(one, dict))
