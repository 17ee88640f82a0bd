"""Metrics that follow from vLLM's own, for dashboards that should not have to know vLLM's blocks and buckets.

Also what autoscaling looks at (serve_app/scale).
"""

from __future__ import annotations

from typing import Any

USE = "vllm:kv_cache_usage_perc"
BLOCKS = ("vllm:cache_config_info", "num_gpu_blocks")
WAITING = "vllm:num_requests_waiting_by_reason"
CAPACITY = {"reason": "capacity"}
TRANSFER_SECONDS = "vllm:nixl_xfer_time_seconds"
TRANSFER_BYTES = "vllm:nixl_bytes_transferred"


def values(registry: Any, *names: str) -> dict[str, float]:
    """The sums of samples over their labels (the engines of this process), by sample name; what is not there is not."""
    found: dict[str, float] = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name in names:
                found[sample.name] = found.get(sample.name, 0.0) + float(sample.value)
    return found


def waiting(registry: Any) -> float:
    """Requests that wait for room in the engines. Those that wait for their KV to arrive are no reason for more."""
    return sum(
        float(sample.value)
        for family in registry.collect()
        for sample in family.samples
        if sample.name == WAITING and CAPACITY.items() <= sample.labels.items()
    )


def blocks(registry: Any) -> tuple[float, float] | None:
    """(free, all) KV blocks of this process's engines; None where there is no engine."""
    total: dict[str, float] = {}
    use: dict[str, float] = {}
    for family in registry.collect():
        for sample in family.samples:
            engine = sample.labels.get("engine", "")
            if sample.name == BLOCKS[0] and str(sample.labels.get(BLOCKS[1], "")).isdigit():
                total[engine] = float(sample.labels[BLOCKS[1]])
            elif sample.name == USE:
                use[engine] = float(sample.value)
    if not total:
        return None
    # Block 0 is vLLM's placeholder for "no block": usage is counted over the others.
    usable = {engine: count - 1 for engine, count in total.items()}
    free = sum(round(count * (1 - use.get(engine, 0.0))) for engine, count in usable.items())
    return float(free), float(sum(usable.values()))


def text(registry: Any) -> str:
    """The derived metrics, in Prometheus' text format."""
    lines: list[str] = []
    found = blocks(registry)
    if found is not None:
        lines += _gauge("serve_app_kv_blocks_free", "KV blocks that no request holds.", found[0])
        lines += _gauge("serve_app_kv_blocks", "KV blocks of this replica.", found[1])
    moved = values(registry, f"{TRANSFER_SECONDS}_sum", f"{TRANSFER_BYTES}_sum")
    seconds = moved.get(f"{TRANSFER_SECONDS}_sum", 0.0)
    if seconds > 0:
        lines += _gauge("serve_app_kv_transfer_gigabytes_per_second", "Mean rate of all KV transfers since the start.",
                        moved.get(f"{TRANSFER_BYTES}_sum", 0.0) / seconds / 1e9)  # fmt: skip
    return "\n".join(lines) + "\n" if lines else ""


def _gauge(name: str, meaning: str, value: float) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name} {value}"]
