"""Which packages of the EFA installer enter an image, and which don't, each with its reason.

The tarball's layout, as its own script walks it: aws-efa-installer/DEBS/<system>/<machine>/*.deb and, below that,
rdma-core/*.deb (libibverbs and its providers), efa-driver/*.deb (kernel modules) and debug/*.deb.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

TOP = "aws-efa-installer"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}

TAKEN = {
    "libfabric1-aws": "libfabric with the efa provider",
    "libfabric-aws-bin": "fi_info and fi_pingpong, to see what a node can do",
    "libnccl-ofi": "aws-ofi-nccl: NCCL over EFA",
    "ibverbs-providers": "libefa, which libfabric's efa provider is linked with; of the same build as libibverbs",
    "libibverbs1": "what the efa provider talks to the device with",
    "librdmacm1": "libfabric is linked with it",
    "ibverbs-utils": "ibv_devinfo, to see a node's devices",
}
REQUIRED = ("libfabric1-aws", "libibverbs1", "ibverbs-providers")

LEFT_OUT = {
    "libnccl-ofi-ngc*": "the same plugin for NVIDIA's own containers; libnccl-ofi is taken",
    "openmpi*": "nothing here uses MPI, and it would bring ssh",
    "libpmix*": "belongs to Open MPI",
    "pmix*": "belongs to Open MPI",
    "prrte*": "belongs to Open MPI",
    "efa": "kernel module: the node's",
    "efa-nv-peermem": "kernel module: the node's",
    "efa-config": "huge pages and limits of a node",
    "efa-profile": "PATH and ld.so's folders: the image's own configuration says them",
    "rdma-core": "udev rules, services and kernel modules of a node",
    "ibacm": "a service of InfiniBand networks",
    "infiniband-diags": "tools of InfiniBand networks",
    "libib*": "libraries of InfiniBand's tools",
    "python3-pyverbs": "nothing here uses it",
    "rdmacm-utils": "tools for RDMA connections, which EFA does not have",
    "srp*": "storage over InfiniBand",
    "*-dev": "headers: nothing is compiled with them in the image",
    "*-dbg*": "debugging symbols",
}
UNKNOWN = "nobody has decided on it (slipway/fabric/packages.py)"


@dataclass(frozen=True)
class Choice:
    """Whether a package is taken, and why."""

    taken: bool
    reason: str

    @property
    def known(self) -> bool:
        return self.reason != UNKNOWN


def choose(package: str) -> Choice:
    """What to do with a package, by its name. One that nobody knows stays out."""
    if package in TAKEN:
        return Choice(True, TAKEN[package])
    reason = next((why for pattern, why in LEFT_OUT.items() if fnmatchcase(package, pattern)), UNKNOWN)
    return Choice(False, reason)
