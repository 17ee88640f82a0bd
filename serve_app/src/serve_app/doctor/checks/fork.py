"""Processes that EFA or CUDA runs in may be forked, or are not forked."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

EFA = "https://github.com/ofiwg/libfabric/issues/6332"
CUDA = "https://docs.vllm.ai/en/latest/usage/troubleshooting.html#python-multiprocessing"
SAFE_SINCE = (5, 13)
"""Linux copies pages that are pinned for RDMA when a process forks."""


def check(node: Node) -> Iterator[Finding]:
    """vLLM starts workers, Ray starts everything: forks after EFA's start happen."""
    wrong = False
    safe = any(node.environ.get(name, "0") not in ("", "0") for name in ("FI_EFA_FORK_SAFE", "RDMAV_FORK_SAFE"))
    if node.efa and (0, 0) < node.kernel < SAFE_SINCE and not safe:
        wrong = True
        yield Finding(
            "fork",
            "error",
            f"Linux {node.kernel[0]}.{node.kernel[1]} does not keep pages that are pinned for EFA "
            "when a process forks: memory is corrupted",
            "Linux 5.13 or newer; or FI_EFA_FORK_SAFE=1",
            EFA,
        )
    if node.environ.get("VLLM_WORKER_MULTIPROC_METHOD") == "fork" and (node.efa or node.uses_gpu):
        wrong = True
        yield Finding(
            "fork",
            "warning",
            "VLLM_WORKER_MULTIPROC_METHOD=fork: a child of a process that has CUDA or EFA can't use them",
            "unset it, or say spawn",
            CUDA,
        )
    if node.efa and not wrong:
        yield Finding("fork", "ok", "forks are safe beside EFA")
