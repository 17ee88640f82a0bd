"""The rules by which Serve scales prefill and decode: `autoscaling_config.policy.policy_function`.

Serve applies its own delays, factors and bounds (upscale_delay_s, max_replicas, ...) to what a rule says. Pure: the
contexts are Serve's AutoscalingContext, of which only `aggregated_metrics` and `current_num_replicas` are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from serve_app.scale.names import KV_USE, QUEUED_TOKENS, WAITING

TOKENS_PER_REPLICA = 16384
"""Prompt tokens that may wait for one prefill replica: the more, the longer the first token takes."""
KV_TARGET = 0.7
"""How full decode's KV blocks should be: above 1 requests are preempted and computed again."""
HYSTERESIS = 0.8
"""A replica is given back only when the others would then be below this part of their target."""


def wanted(load: float, target: float, now: int) -> float:
    """Replicas for a total `load` at `target` each. now: how many there are.

    Between what would be too much for one less and what is too much for these, nothing changes: load that moves around
    a boundary would otherwise start an engine and stop it again.
    """
    needed = max(1, math.ceil(load / target))
    if needed >= now:
        return needed
    return max(needed, min(now, math.ceil(load / (target * HYSTERESIS))), 1)


def prefill_replicas(queued_tokens: Iterable[float], now: int, tokens_per_replica: float = TOKENS_PER_REPLICA) -> float:
    """Prefill's: by the prompt tokens that wait, over all replicas."""
    return wanted(sum(queued_tokens), tokens_per_replica, now)


def decode_replicas(kv_use: Iterable[float], waiting: Iterable[float], now: int, target: float = KV_TARGET) -> float:
    """Decode's: by how full its KV blocks are. Full blocks say nothing of what waits for some: then one more."""
    needed = wanted(sum(kv_use), target, now)
    return max(needed, now + 1) if sum(waiting) >= 1 else needed


def _latest(context: Any, name: str) -> list[float]:
    found: Mapping[Any, float] = (context.aggregated_metrics or {}).get(name) or {}
    return [float(value) for value in found.values()]


class Prefill:
    """A rule for Serve. tokens_per_replica: see TOKENS_PER_REPLICA."""

    def __init__(self, tokens_per_replica: float = TOKENS_PER_REPLICA) -> None:
        self.tokens_per_replica = tokens_per_replica

    def __call__(self, ctx: Any) -> tuple[float, dict[str, Any]]:
        """Serve's signature. Nothing heard yet: as it is."""
        tokens = _latest(ctx, QUEUED_TOKENS)
        if not tokens:
            return ctx.target_num_replicas, {}
        return prefill_replicas(tokens, ctx.current_num_replicas, self.tokens_per_replica), {}


class Decode:
    """A rule for Serve. kv_use: see KV_TARGET."""

    def __init__(self, kv_use: float = KV_TARGET) -> None:
        self.kv_use = kv_use

    def __call__(self, ctx: Any) -> tuple[float, dict[str, Any]]:
        """Serve's signature. Nothing heard yet: as it is."""
        use = _latest(ctx, KV_USE)
        if not use:
            return ctx.target_num_replicas, {}
        return decode_replicas(use, _latest(ctx, WAITING), ctx.current_num_replicas, self.kv_use), {}
