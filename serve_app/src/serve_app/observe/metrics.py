"""Our Prometheus metrics, in each replica's process, beside vLLM's own (`vllm:…`) in the same registry."""

from __future__ import annotations

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

HTTP_REQUESTS = Counter("serve_app_http_requests", "Generations answered, by status.", ["route", "status"])
FIRST_ITEM = Histogram("serve_app_first_item_seconds", "From request to the first item (with stream: the first token).",
                       ["route"], buckets=SECONDS)  # fmt: skip
PREFILLS = Counter("serve_app_prompts", "Requests by where their prompts were computed: remote, or local and why.",
                   ["where", "reason"])  # fmt: skip
PREFILL_SECONDS = Histogram("serve_app_remote_prefill_seconds", "A prompt's way to prefill and back.", buckets=SECONDS)
CIRCUIT = Gauge("serve_app_prefill_circuit_open", "1 while prefill is not asked.")
CIRCUIT_OPENED = Counter("serve_app_prefill_circuit_opened", "How often the circuit was opened, by reason.", ["reason"])
RELEASED = Counter("serve_app_kv_released", "Prompts whose KV was fetched only to let prefill free it.")


def text() -> str:
    """This process's metrics in Prometheus' text format."""
    found: bytes = generate_latest(REGISTRY)
    return found.decode()
