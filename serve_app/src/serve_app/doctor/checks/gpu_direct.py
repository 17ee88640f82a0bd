"""EFA reads and writes GPU memory itself."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/ai-dynamo/nixl/blob/main/src/utils/libfabric/libfabric_rail.cpp"


def check(node: Node) -> Iterator[Finding]:
    """By the line that NIXL writes when libfabric gives it no FI_HMEM: a transfer that works does not prove it."""
    if not (node.efa and node.uses_gpu):
        return
    backend = node.loaded.get("LIBFABRIC")
    if backend is None or backend.error or backend.died:
        return
    if backend.without_hmem:
        yield Finding(
            "gpu_direct",
            "warning",
            'libfabric reaches no GPU memory ("Using provider without FI_HMEM"): KV goes through host memory',
            "an instance type with EFA RDMA read (P4d and later, G6 and later), the EFA "
            "installer's libfabric built with CUDA, and dma-buf or nvidia-peermem on the host",
            WHY,
        )
    else:
        yield Finding("gpu_direct", "ok", "libfabric's provider reaches GPU memory (FI_HMEM)")
