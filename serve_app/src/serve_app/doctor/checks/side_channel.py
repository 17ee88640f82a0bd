"""The ports over which prefill and decode find each other are free."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

PREFILL, DECODE, WIDTH = 20000, 22000, 64
LISTEN = "0A"
WHY = "https://docs.vllm.ai/en/latest/features/nixl_connector_usage.html"
PRESET = "https://github.com/vllm-project/vllm/issues/41806"


def check(node: Node) -> Iterator[Finding]:
    """Ray gives prefill 20000 and up, decode 22000 and up."""
    wrong = False
    for name in ("VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_NIXL_SIDE_CHANNEL_HOST"):
        if node.environ.get(name):
            wrong = True
            yield Finding(
                "side_channel",
                "warning",
                f"{name} is set: every replica of this node would take the same one, and "
                "a cluster that was started from here hands it on",
                f"unset {name}",
                PRESET,
            )
    taken = sorted(port for port in listening(node) if any(0 <= port - base < WIDTH for base in (PREFILL, DECODE)))
    if taken and not engines(node):
        wrong = True
        yield Finding(
            "side_channel",
            "error",
            f"port {', '.join(map(str, taken))} is taken by another program: the replica that gets it fails to start",
            "free it, or move the base: experimental_configs.NIXL_SIDE_CHANNEL_PORT_BASE",
            WHY,
        )
    first = (node.text("proc/sys/net/ipv4/ip_local_port_range").split() or ["32768"])[0]
    if int(first) < DECODE + WIDTH:
        wrong = True
        yield Finding(
            "side_channel",
            "warning",
            f"outgoing connections may take ports from {first} on: one day it is one of {PREFILL} to {DECODE + WIDTH}",
            "sysctl net.ipv4.ip_local_port_range='32768 60999'",
            WHY,
        )
    if not wrong:
        yield Finding(
            "side_channel",
            "ok",
            "ports 20000 and 22000 and up are "
            + (f"in use by engines of this node ({', '.join(map(str, taken))})" if taken else "free"),
        )


def listening(node: Node) -> set[int]:
    """TCP ports that somebody listens on; format: proc_pid_net(5)."""
    found = set()
    for file in ("proc/net/tcp", "proc/net/tcp6"):
        for line in node.text(file).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == LISTEN:
                found.add(int(fields[1].rpartition(":")[2], 16))
    return found


def engines(node: Node) -> bool:
    """Whether a replica of prefill or decode runs here: its ports are no foreign ones."""
    lines = (node.text(str(path.relative_to(node.root))) for path in node.glob("proc/[0-9]*/cmdline"))
    return any("ServeReplica" in line and ("Prefill:" in line or "Decode:" in line) for line in lines)
