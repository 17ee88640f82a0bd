"""Where KV goes over tcp: an interface that the other node can reach, and the one that will be taken."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/ai-dynamo/nixl/blob/main/src/utils/libfabric/libfabric_topology.cpp"
LEAST_MTU = 1400


def check(node: Node) -> Iterator[Finding]:
    """NIXL's LIBFABRIC takes the first interface besides lo when there is no EFA."""
    if node.efa:
        return
    names = [path.name for path in node.glob("sys/class/net/*") if path.name != "lo" and up(node, path.name)]
    if not names:
        yield Finding(
            "interfaces",
            "error",
            "there is no network interface besides lo: NIXL's LIBFABRIC can't be made, and no other node be reached",
            "a network for this container",
            WHY,
        )
        return
    route = default_route(node)
    small = [
        name
        for name in names
        if (node.text(f"sys/class/net/{name}/mtu").strip() or "9001").isdigit()
        and int(node.text(f"sys/class/net/{name}/mtu").strip() or 9001) < LEAST_MTU
    ]
    if len(names) > 1 and not node.environ.get("FI_TCP_IFACE"):
        yield Finding(
            "interfaces",
            "warning",
            f"there are {len(names)} interfaces ({', '.join(names)}), and NIXL's LIBFABRIC "
            f"takes the first that libfabric lists, wherever it leads (the default route is {route or 'none'})",
            f"FI_TCP_IFACE={route or names[0]} on every node",
            WHY,
        )
    elif small:
        yield Finding(
            "interfaces",
            "warning",
            f"{small[0]} has an MTU below {LEAST_MTU}: more packets, less speed",
            "the network's full MTU (9001 in a VPC)",
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/network_mtu.html",
        )
    else:
        yield Finding("interfaces", "ok", f"KV goes over {environ_or(node, names[0])}")


def environ_or(node: Node, name: str) -> str:
    """The interface that libfabric's tcp will use."""
    return node.environ.get("FI_TCP_IFACE") or name


def up(node: Node, name: str) -> bool:
    """Whether an interface works, as far as the kernel knows."""
    return node.text(f"sys/class/net/{name}/operstate").strip() in ("up", "unknown")


def default_route(node: Node) -> str:
    """The interface of the default route, "" for none; format: proc_pid_net(5)."""
    for line in node.text("proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == fields[7] == "00000000":
            return fields[0]
    return ""
