"""Nodes for the doctor's tests: folders that look like /proc, /sys and /dev of a laptop, a GPU node and an EFA node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from serve_app.doctor.loaded import Loaded
from serve_app.doctor.node import Node, Ran

LIB = "/usr/lib/x86_64-linux-gnu"
CUDA13 = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
CPU = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n"
DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@x)\n"
FI_INFO = "provider: efa\n    fabric: efa\n"
ROUTE = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth0 00000000 0100000A 3 0 0 0 00000000 0 0 0\n"  # noqa: E501
GB = 10**9


@dataclass
class Fake:
    """What a node is made of. Every field can be changed before `make`."""

    root: Path
    files: dict[str, str] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=lambda: {"HOME": "/home/ray"})
    packages: dict[str, str] = field(default_factory=lambda: {"torch": "2.13.0+cpu"})
    torch: str = CPU
    config: dict[str, object] = field(default_factory=dict)
    fi_info: Ran = field(default_factory=lambda: Ran(61, "fi_getinfo: -61 (No data available)"))
    denied: str = ""
    synchronised: bool = True
    now: float = 1_796_000_000.0
    writable: Callable[[Path], bool] = field(default=lambda _path: True)
    shm: tuple[int, int] = (8 * GB, 8 * GB)
    disk: tuple[int, int] = (500 * GB, 300 * GB)
    efa: int = 0
    loaded: dict[str, Loaded] = field(
        default_factory=lambda: {
            "UCX": Loaded(libraries=(f"{LIB}/libucp.so.0", f"{LIB}/libibverbs.so.1", f"{LIB}/libnl-3.so.200")),
            "LIBFABRIC": Loaded(
                libraries=(f"{LIB}/libfabric.so.1.27.0", f"{LIB}/libcudart.so.13", f"{LIB}/libcuda.so.1")
            ),
        }
    )

    def change(self, name: str, **fields: object) -> None:
        """Change one backend's process."""
        self.loaded[name] = dataclasses.replace(self.loaded[name], **fields)  # type: ignore[arg-type]

    def make(self) -> Node:
        """Write the files; the node."""
        for path, text in self.files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for number in range(self.efa):
            driver = self.root / "sys/bus/pci/drivers/efa"
            driver.mkdir(parents=True, exist_ok=True)
            device = self.root / f"sys/class/infiniband_verbs/uverbs{number}/device"
            device.mkdir(parents=True, exist_ok=True)
            (device / "driver").symlink_to(driver)

        def space(path: Path) -> tuple[int, int]:
            return self.shm if str(path) == "/dev/shm" else self.disk

        def run(command: object) -> Ran:
            return self.fi_info

        def load() -> Mapping[str, Loaded]:
            return self.loaded

        return Node(
            self.root, self.environ, self.config, run, lambda name: self.packages.get(name, ""), lambda: self.torch,
            lambda _path: self.denied, lambda: self.synchronised, lambda: self.now, self.writable, space, load,
        )  # fmt: skip


def laptop(root: Path) -> Fake:
    """Two cores, no GPU, no EFA, the cpu image in Docker."""
    files = {
        "proc/self/limits": "Limit  Soft Limit  Hard Limit Units\nMax locked memory  8388608  8388608  bytes\n",
        "proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n",
        "proc/meminfo": "MemTotal: 16000000 kB\nHugePages_Total: 0\nHugePages_Free: 0\n",
        "proc/sys/kernel/osrelease": "6.1.0-13-amd64\n",
        "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
        "proc/net/tcp": "sl local rem st\n0: 00000000:1F40 00000000:0000 0A\n",
        "proc/net/route": ROUTE,
        "proc/1/cmdline": "tini\0",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/class/net/lo/operstate": "unknown\n",
        "sys/class/net/eth0/operstate": "up\n",
        "sys/class/net/eth0/mtu": "1500\n",
    }
    return Fake(root, files)


def gpu(root: Path) -> Fake:
    """An EFA node with a GPU: a g6.8xlarge."""
    fake = laptop(root)
    fake.files |= {
        "dev/nvidia0": "",
        "dev/nvidiactl": "",
        "dev/infiniband/uverbs0": "",
        "proc/driver/nvidia/version": DRIVER,
        "proc/self/limits": "Max locked memory  unlimited  unlimited  bytes\n",
        "proc/self/status": "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-31\n",
        "proc/meminfo": "MemTotal: 128000000 kB\nHugePages_Total: 5128\nHugePages_Free: 5000\n",
    }
    fake.packages = {"torch": "2.13.0+cu130"}
    fake.torch, fake.fi_info, fake.efa = CUDA13, Ran(0, FI_INFO), 1
    return fake
