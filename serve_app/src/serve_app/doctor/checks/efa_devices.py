"""EFA devices that the node has can be used in this container."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

PLUGIN = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
FI_INFO = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"


def check(node: Node) -> Iterator[Finding]:
    """Kernel, device files, libfabric: each can lack what the one before has."""
    if not node.efa:
        if node.uses_gpu:
            yield Finding(
                "efa_devices",
                "warning",
                "there is no EFA device: KV travels over tcp, at a fraction of what a GPU node can",
                "an instance type with EFA, its interface attached, and vpc.amazonaws.com/efa in the pod's resources",
                PLUGIN,
            )
        else:
            yield Finding("efa_devices", "ok", "no EFA device and no GPU: KV travels over tcp")
        return
    files = [node.root / "dev/infiniband" / name for name in node.efa]
    missing = [path.name for path in files if not path.exists()]
    if len(missing) == len(files):
        yield Finding(
            "efa_devices",
            "error",
            f"the node has EFA ({', '.join(missing)}), and this container none of its device files",
            "ask for vpc.amazonaws.com/efa in the pod's resources (device plugin), or run docker "
            "with --device /dev/infiniband/uverbs0",
            PLUGIN,
        )
        return
    denied = {path.name: why for path in files if path.exists() and (why := node.can_open(path))}
    if denied:
        told = ", ".join(f"{name}: {why}" for name, why in denied.items())
        yield Finding(
            "efa_devices",
            "error",
            f"EFA's device files are here and can't be opened ({told}): a hostPath mount without the device plugin",
            "ask for vpc.amazonaws.com/efa in place of the hostPath",
            PLUGIN,
        )
        return
    said = node.run(["fi_info", "-p", "efa", "-t", "FI_EP_RDM"])
    if said.code == 0 and "provider: efa" in said.out:
        yield Finding("efa_devices", "ok", f"{len(files) - len(missing)} EFA device(s), listed by fi_info")
        return
    nothing = "-61" in said.out or said.code in (61, 195)
    yield Finding(
        "efa_devices",
        "error",
        "EFA's device files can be opened, and fi_info "
        + ("finds no EFA provider (-61, no data available)" if nothing else f"fails: {said.out.strip()[-200:]}"),
        "a libfabric with the efa provider (the image's lies in /opt/amazon/efa), rdma-core's libefa as new as it, "
        "and a security group that lets the node talk to itself",
        FI_INFO,
    )
