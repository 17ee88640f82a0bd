"""No compatibility libcuda shadows a newer driver's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serve_app.doctor.checks.driver import driver_version
from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"
FOLDERS = ("usr/local/cuda*/compat/libcuda.so.*", "opt/cuda*/compat/libcuda.so.*")


def check(node: Node) -> Iterator[Finding]:
    """Compares libcuda as mapped, else as it lies on the loader's way, with the kernel's driver."""
    driver = driver_version(node)
    if not driver:
        return
    mapped = [path for one in node.loaded.values() for path in one.files("libcuda") if "compat" in path]
    lying = [str(path) for path in (path for folder in FOLDERS for path in node.glob(folder))]
    on_the_way = [path for path in lying if "compat" in node.environ.get("LD_LIBRARY_PATH", "")]
    for path in dict.fromkeys([*mapped, *on_the_way]):
        match = re.search(r"libcuda\.so\.(\d+(?:\.\d+)+)$", path)
        if match and tuple(int(part) for part in match[1].split(".")) < driver:
            yield Finding(
                "compat",
                "error",
                f"{path} shadows the newer driver {'.'.join(map(str, driver))}: CUDA fails with "
                "error 803 or runs as the old one",
                "take the compat folder off LD_LIBRARY_PATH and ld.so.conf.d",
                WHY,
            )
            return
    yield Finding("compat", "ok", "no compatibility libcuda shadows the driver")
