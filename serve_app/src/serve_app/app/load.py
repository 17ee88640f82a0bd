"""How many requests may be in an engine, in its queue and in the ingress. Pure.

Ray LLM's own default is 1e9 of each: its 429 and its autoscaling never fire, and an overload becomes a queue in which
everybody waits for minutes.
"""

from __future__ import annotations

import math
from typing import Any

from serve_app.config.origin import Filler
from serve_app.observe import trace

MAX_NUM_SEQS = {"cpu": 128, "gpu": 256}
"""vLLM's own defaults for an API server; Ray does not say a number."""

ROOM = 1.0
"""Requests at a time, in sequences that an engine computes at a time. With more, those that are taken wait for others:
at 1.25 the p99 of what was accepted under four times the capacity was 1.72 times the p99 at capacity (cpu variant, two
cores, 64 clients). Where some latency may be given for some throughput, endpoint.max_in_flight says how much."""

INGRESS_ONGOING = 10_000
"""An ingress replica takes more than it lets through, so that the refusals are its own: in OpenAI's shape, at once."""


def sequences(config: dict[str, Any]) -> int:
    """How many sequences one replica computes at a time."""
    on_cpu = (config.get("accelerator_config") or {}).get("kind") == "cpu"
    engine = config.get("engine_kwargs") or {}
    parallel = engine.get("data_parallel_size") or 1
    return int(engine.get("max_num_seqs") or MAX_NUM_SEQS["cpu" if on_cpu else "gpu"]) * int(parallel)


def replicas(config: dict[str, Any]) -> int:
    """How many there may be at most."""
    deployment = config.get("deployment_config") or {}
    scaling = deployment.get("autoscaling_config") or {}
    fixed = deployment.get("num_replicas")
    return max(1, fixed if isinstance(fixed, int) else int(scaling.get("max_replicas") or 1))


def in_flight(configs: list[dict[str, Any]]) -> int:
    """Requests at a time for an ingress in front of these engines."""
    return sum(math.ceil(ROOM * sequences(config)) * replicas(config) for config in configs)


def fill_engine(filler: Filler) -> None:
    """A replica's limits where one engine does everything."""
    config = filler.data
    seqs = sequences(config)
    ongoing = math.ceil(ROOM * seqs)
    why = f"derived from max_num_seqs ({seqs})"
    filler.set("deployment_config.max_ongoing_requests", ongoing, why)
    filler.set("deployment_config.max_queued_requests", ongoing, f"{why}: beyond it a request gets 429 at once")
    scaling = (config.get("deployment_config") or {}).get("autoscaling_config")
    if isinstance(scaling, dict) and "policy" not in scaling:
        filler.set("deployment_config.autoscaling_config.target_ongoing_requests", max(1, seqs // 2), why)


def fill_tracing(filler: Filler) -> None:
    """Where the engine sends its own spans: where ours go."""
    target = trace.endpoint()
    if target is not None:
        filler.set("engine_kwargs.otlp_traces_endpoint", target, "derived from OTEL_EXPORTER_OTLP_ENDPOINT")


def fill_answers(filler: Filler, max_tokens: int | None) -> None:
    """The longest answer, where there is a limit: vLLM's own, which also makes room for the prompt."""
    if max_tokens is not None:
        filler.set("engine_kwargs.override_generation_config.max_new_tokens", max_tokens,
                   "derived from endpoint.max_tokens")  # fmt: skip


def fill_ingress(filler: Filler, limit: int) -> None:
    """The ingress's own. limit: requests at a time that it lets through."""
    if "num_replicas" not in filler.data and "autoscaling_config" not in filler.data:
        filler.set("num_replicas", 1, "default")
    filler.set("max_ongoing_requests", max(INGRESS_ONGOING, 4 * limit), "default: refusals are the ingress's own")
    if isinstance(filler.data.get("autoscaling_config"), dict):
        filler.set("autoscaling_config.target_ongoing_requests", max(1, limit // 2), f"derived from {limit} in flight")


def fill_patience(filler: Filler, request_s: float, prefix: str = "deployment_config.") -> None:
    """How long a replica that has to go may take for what it has begun: as long as a request may take at all."""
    filler.set(f"{prefix}graceful_shutdown_timeout_s", request_s, "derived from request_s: a replica that is scaled "
               "down or replaced ends its requests first")  # fmt: skip
