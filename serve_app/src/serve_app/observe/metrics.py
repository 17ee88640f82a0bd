"""Our Prometheus metrics, in each replica's process, beside vLLM's own (`vllm:…`) in the same registry."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

from serve_app.observe import derived

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

HTTP_REQUESTS = Counter("serve_app_http_requests", "HTTP requests answered, by status.", ["route", "status"])
FIRST_ITEM = Histogram("serve_app_first_item_seconds", "From request to the first item (with stream: the first token).",
                       ["route"], buckets=SECONDS)  # fmt: skip
TOTAL = Histogram("serve_app_request_seconds", "From request to the last byte of its answer.", ["route"],
                  buckets=SECONDS)  # fmt: skip
IN_FLIGHT = Gauge("serve_app_in_flight", "Generations that run or wait now.")
DRAINING = Gauge("serve_app_draining", "1 while no new requests are taken.")
KEY_REQUESTS = Counter("serve_app_key_requests", "Requests of an API key (its name), by status.", ["key", "status"])
KEY_TOKENS = Counter("serve_app_key_tokens", "Tokens of an API key (its name): prompt, completion.", ["key", "kind"])
PREFILLS = Counter("serve_app_prompts", "Requests by where their prompts were computed: remote, or local and why.",
                   ["where", "reason"])  # fmt: skip
PREFILL_SECONDS = Histogram("serve_app_remote_prefill_seconds", "A prompt's way to prefill and back.", buckets=SECONDS)
CIRCUIT = Gauge("serve_app_prefill_circuit_open", "1 while prefill is not asked.")
CIRCUIT_OPENED = Counter("serve_app_prefill_circuit_opened", "How often the circuit was opened, by reason.", ["reason"])
RELEASED = Counter("serve_app_kv_released", "Prompts whose KV prefill was told to free unread.")


def of_live(live: Any) -> None:
    """Gauges of an ingress (access/live.py)."""
    IN_FLIGHT.set(live.in_flight)
    DRAINING.set(int(live.draining))


def text() -> str:
    """This process's metrics in Prometheus' text format."""
    found: bytes = generate_latest(REGISTRY)
    return found.decode() + derived.text(REGISTRY)
