"""One library of each kind in a process that has NIXL's backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from serve_app.doctor.model import Finding, Severity
from serve_app.doctor.node import Node

KINDS: dict[str, tuple[Severity, str]] = {
    "libfabric": ("error", "https://github.com/ai-dynamo/dynamo/pull/12105"),
    "libcudart": ("error", "https://github.com/vllm-project/vllm/issues/44266"),
    "libnccl": ("error", "https://github.com/aws/aws-ofi-nccl/issues/584"),
    "libibverbs": ("warning", "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/2824"),
    "libnl-3": ("warning", "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/2824"),
    "libnl-route-3": ("warning", "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/2824"),
    "libucp": ("error", "https://github.com/ai-dynamo/nixl/issues/1668"),
}
"""Kind → how bad two of it are, and where somebody met that."""


def check(node: Node) -> Iterator[Finding]:
    """As mapped, not as installed: a second copy on disk that nothing loads does no harm."""
    twice = False
    names: dict[str, None] = {}
    for backend, loaded in node.loaded.items():
        for kind, (severity, why) in KINDS.items():
            files = loaded.files(kind)
            names |= {Path(path).name: None for path in files}
            if len(files) > 1:
                twice = True
                yield Finding(
                    "libraries",
                    severity,
                    f"{len(files)} {kind} in a process with NIXL's {backend}: {', '.join(files)}",
                    "remove all but one, or keep the module from loading that brings the other "
                    "(UCX_MODULES=^rdmacm,efa as the image sets it)",
                    why,
                )
    if not twice and names:
        yield Finding("libraries", "ok", f"one of each in a process: {', '.join(names)}")
