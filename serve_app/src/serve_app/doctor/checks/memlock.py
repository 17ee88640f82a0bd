"""Memory can be locked: EFA registers all of the KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/awslabs/awsome-distributed-ai/issues/647"
CAP_IPC_LOCK = 14
ENOUGH = 16 << 30


def check(node: Node) -> Iterator[Finding]:
    """Only where there is EFA: nothing else here locks memory."""
    if not node.efa:
        return
    soft = node.field("proc/self/limits", "Max locked memory").split()[:1]
    capabilities = int(node.field("proc/self/status", "CapEff") or "0", 16)
    if soft == ["unlimited"] or (soft and soft[0].isdigit() and int(soft[0]) >= ENOUGH):
        yield Finding("memlock", "ok", f"memory that may be locked: {soft[0]}")
    elif capabilities >> CAP_IPC_LOCK & 1:
        yield Finding(
            "memlock", "note", "the limit of locked memory is small, and CAP_IPC_LOCK is there, which passes it by"
        )
    else:
        yield Finding(
            "memlock",
            "error",
            f"only {soft[0] if soft else 0} bytes may be locked: EFA's memory registration fails (FI_ENOMEM, -12)",
            "memlock unlimited: --ulimit memlock=-1, or in the container runtime's unit "
            "LimitMEMLOCK=infinity; or add the capability IPC_LOCK",
            WHY,
        )
