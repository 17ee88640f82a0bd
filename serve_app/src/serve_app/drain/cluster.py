"""Drains applications through Serve: their ingress replicas are told, and asked what still runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

ANSWER_S = 3.0
POLL_S = 0.25
END_S = 2.0
"""For the errors to be on their way to the clients."""
KNOWN_S = 2.0
"""A handle knows its replicas after milliseconds; where there are none, this is waited for nothing."""


def tell(applications: Iterable[str], on: bool = True) -> int:
    """Tells every ingress replica; how many requests run. One that does not answer has none that could end."""
    return sum(_ask(name, "drain", on) for name in applications)


def running(applications: Iterable[str]) -> int:
    """How many requests run."""
    return sum(_ask(name, "in_flight") for name in applications)


def end(applications: Iterable[str], clock: Callable[[], float] = time.monotonic) -> int:
    """Ends the requests that still run, each with an error its client understands; how many did not even end so."""
    names = list(applications)
    for name in names:
        _ask(name, "end")
    return wait(names, END_S, clock=clock)


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
    """Sums what the ingress replicas answer. 0 where there is no such application, or no ingress of ours."""
    from ray import serve

    try:
        handle = serve.get_app_handle(application)
    except Exception:  # noqa: BLE001 - it is not there, or Serve is gone
        return 0
    return asked(lambda: handle.broadcast(method, *args).results(timeout_s=ANSWER_S, return_exceptions=True))


def asked(
    ask: Callable[[], list[Any]],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """The sum of the answers, asked again for a moment where there are no replicas to ask.

    A handle that is new has not heard of any yet, which looks the same as an ingress that is gone; to take it for "no
    request runs" would cut off what runs.
    """
    end = clock() + KNOWN_S
    while True:
        try:
            return sum(int(one["in_flight"]) for one in ask() if isinstance(one, dict))
        except Exception:  # noqa: BLE001 - DeploymentUnavailableError, or whatever a dying Ray raises
            if clock() >= end:
                return 0
        pause(POLL_S)
