"""Cores for NIXL's threads, on a node that computes on its CPU."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/vllm-project/vllm/blob/main/vllm/distributed/kv_transfer/kv_connector/v1/nixl/base_worker.py"


def check(node: Node) -> Iterator[Finding]:
    """vLLM pins NIXL's worker to the last core of each NUMA node, whether it may run there or not."""
    if node.uses_gpu:
        return
    allowed = cores(node.field("proc/self/status", "Cpus_allowed_list"))
    nodes = {path.parent.name: cores(path.read_text()) for path in node.glob("sys/devices/system/node/node*/cpulist")}
    last = {max(found) for found in nodes.values() if found}
    if allowed and last and not last & allowed:
        missing = ", ".join(map(str, sorted(last)))
        yield Finding(
            "worker_cores",
            "error",
            f"vLLM's NIXL worker asks for core {missing}, where this container may not run: it dies with EINVAL",
            "a cpuset with the last core of its NUMA node, or none",
            WHY,
        )
    elif len(allowed) == 1:
        yield Finding(
            "worker_cores",
            "warning",
            "there is one core, and NIXL's threads never rest: requests wait for seconds",
            "two cores or more for each engine",
            WHY,
        )
    elif allowed:
        yield Finding(
            "worker_cores", "ok", f"{len(allowed)} cores; serve_app's connector gives them all to NIXL's threads"
        )


def cores(text: str) -> set[int]:
    """`0-3,8` → {0, 1, 2, 3, 8}."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found
