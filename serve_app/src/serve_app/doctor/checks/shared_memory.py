"""Shared memory is big enough for Ray's object store and for the messages between an engine's processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/vllm-project/vllm/issues/7466"
FOLDER = Path("/dev/shm")  # noqa: S108
ENOUGH, LEAST = 1 << 30, 160 << 20
"""Bytes. Below LEAST Ray's object store goes to a disk."""


def check(node: Node) -> Iterator[Finding]:
    """Docker gives 64 MB unless told otherwise."""
    total, free = node.space(FOLDER)
    told = f"{FOLDER} has {total / 1e9:.2f} GB, {free / 1e9:.2f} GB of it free"
    remedy = "--shm-size 2g, or in Kubernetes an emptyDir {medium: Memory} mounted on /dev/shm"
    if total < ENOUGH and node.uses_gpu:
        yield Finding("shared_memory", "error", f"{told}: tensor parallel workers and NCCL fail", remedy, WHY)
    elif total < LEAST:
        yield Finding("shared_memory", "warning", f"{told}: Ray's object store goes to /tmp", remedy, WHY)
    elif free < LEAST:
        yield Finding(
            "shared_memory", "warning", f"{told}: something has filled it", "remove what ended processes left", WHY
        )
    else:
        yield Finding("shared_memory", "ok", told)
