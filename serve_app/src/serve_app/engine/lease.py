"""Until when a prefill's blocks are provably its prompt's. Pure.

Prefill keeps a finished prompt's blocks for a lease and then gives them to other prompts; nothing tells decode. So
decode must know a time until which the lease certainly runs, on its own clock, without trusting that two nodes' clocks
agree or that a message took no time:

- t0: decode's clock when it sent the request: the lease can't have begun before.
- prefill's own clock is read at its first sign of life (p_first) and at its last one before the answer (p_last). The
  engine had not finished at p_last, so the lease began no earlier than p_last. Between p_first and p_last the same time
  has passed on every clock, and p_first was after t0: the lease began no earlier than t0 + (p_last - p_first).

Clocks are CLOCK_MONOTONIC (time.monotonic and time.perf_counter on Linux), seconds.
"""

from __future__ import annotations

MARGIN_S = 2.0
"""Taken off the lease: the engine's answer waits in a socket for a moment, and its expiry is checked once a step."""


def valid_until(t0: float, p_first: float, p_last: float, lease_s: float) -> float:
    """Decode's clock until which the lease runs."""
    return t0 + max(0.0, p_last - p_first) + lease_s - MARGIN_S


def runs(until: float | None, now: float) -> bool:
    """True while the lease provably runs. None: nobody said until when, as with parameters that are not ours: true."""
    return until is None or now < until


def rebased(until: float | None, theirs: float, ours: float) -> float | None:
    """The same moment on another process's clock, given both clocks at about one time; 0 for `theirs` is unknown.

    Workers of one engine may be on several nodes. The message's own delay makes the lease look longer by itself only,
    milliseconds that MARGIN_S covers.
    """
    return until if until is None or not theirs else until + (ours - theirs)
