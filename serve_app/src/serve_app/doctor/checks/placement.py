"""Prefill and decode are on different nodes, at the very least on different GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/openucx/ucx/issues/9906"
SAME_GPU = (
    "prefill and decode share one GPU: UCX may silently take tcp within it. Measured on an H200: 0.45 GB/s with NIXL "
    "1.3.1, where a CUDA IPC copy does 1097 GB/s and NIXL 1.3.2 took CUDA IPC; --measure names what is taken here"
)


def check(node: Node) -> Iterator[Finding]:
    """Running replicas, as /proc shows them, and what --config allows."""
    found = replicas(node)
    if "Prefill" in found and "Decode" in found:
        shared = set.intersection(*found.values())
        if node.uses_gpu and shared:
            yield Finding(
                "placement", "warning", SAME_GPU, "give them a GPU each (NVLink: 190 GB/s) or a node each", WHY
            )
        else:
            yield Finding(
                "placement",
                "warning",
                "prefill and decode run on this one node: they take from each other what was to be kept apart",
                "a second node, and no kv_transfer.allow_same_node",
                WHY,
            )
        return
    if allows_same_node(node.config):
        one = node.uses_gpu and node.gpus == 1
        yield Finding(
            "placement",
            "warning",
            "kv_transfer.allow_same_node: Ray may put prefill and decode on one node"
            + (f"; with this one GPU, {SAME_GPU}" if one else ""),
            "leave it out in production",
            WHY,
        )
    elif found:
        yield Finding("placement", "ok", f"only {', '.join(sorted(found)).lower()} runs on this node")
    else:
        yield Finding(
            "placement", "ok", "no engine runs here yet; serve_app keeps prefill and decode on different nodes"
        )


def replicas(node: Node) -> dict[str, set[str]]:
    """Role → GPUs that its replicas' processes see (CUDA_VISIBLE_DEVICES; "all" where nothing is said)."""
    found: dict[str, set[str]] = {}
    for path in node.glob("proc/[0-9]*/cmdline"):
        line = node.text(str(path.relative_to(node.root)))  # "" for a process that has ended meanwhile
        role = re.search(r"ServeReplica:.*?(Prefill|Decode):", line)
        if role:
            environ = node.text(str(path.with_name("environ").relative_to(node.root)))
            said = re.search(r"(?:^|\0)CUDA_VISIBLE_DEVICES=([^\0]*)", environ)
            found.setdefault(role[1], set()).update(said[1].split(",") if said and said[1] else ["all"])
    return found


def allows_same_node(config: object) -> bool:
    """Whether a Serve document has kv_transfer.allow_same_node anywhere."""
    if isinstance(config, dict):
        block = config.get("kv_transfer")
        if isinstance(block, dict) and block.get("allow_same_node") is True:
            return True
        return any(allows_same_node(value) for value in config.values())
    return isinstance(config, list) and any(allows_same_node(value) for value in config)
