"""Memory for EFA's buffers: they are allocated for each device."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/aws-samples/awsome-inference/issues/71"
PER_DEVICE = 4 << 30
"""Bytes; 32 devices of a p5.48xlarge were seen to want 128 GiB."""


def check(node: Node) -> Iterator[Finding]:
    """The container's own limit, else the machine's memory."""
    if not node.efa:
        return
    limit = next(
        (
            int(text)
            for file in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
            if (text := node.text(file).strip()).isdigit()
        ),
        1 << 62,
    )
    machine = int((node.field("proc/meminfo", "MemTotal").split() or ["0"])[0]) * 1024
    there, wanted = min(limit, machine or limit), PER_DEVICE * len(node.efa)
    if there < wanted:
        yield Finding(
            "memory",
            "warning",
            f"{len(node.efa)} EFA devices want about {wanted >> 30} GiB, and there are {there >> 30}",
            "a higher memory limit, or fewer vpc.amazonaws.com/efa",
            WHY,
        )
    else:
        yield Finding("memory", "ok", f"{there >> 30} GiB for {len(node.efa)} EFA devices")
