"""The NVIDIA driver is new enough for the CUDA that torch was built with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

LEAST = {12: 525, 13: 580}
"""CUDA's major version → least driver branch, by minor version compatibility."""

WHY = "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"


def check(node: Node) -> Iterator[Finding]:
    """Says nothing of a node without a GPU, except that torch was built for one."""
    wanted = re.search(r"^cuda\b[^=]*=\s*'(\d+)\.(\d+)'", node.torch_file(), re.MULTILINE)
    said = driver_version(node)
    if not node.gpus:
        if wanted:
            yield Finding(
                "driver",
                "error",
                f"torch is built for CUDA {wanted[1]}.{wanted[2]}, and there is no GPU here",
                "give the container GPUs (nvidia.com/gpu, --gpus all), or use the cpu image",
                WHY,
            )
        return
    if not wanted:
        yield Finding(
            "driver",
            "warning",
            f"{node.gpus} GPU(s) are here, and torch is built without CUDA: unused",
            "use the cuda image",
            WHY,
        )
    elif not said:
        yield Finding(
            "driver",
            "error",
            "GPU device files are here, and no driver is loaded",
            "load the NVIDIA driver on the host, and its libraries by the NVIDIA container toolkit",
            WHY,
        )
    elif said[0] < LEAST.get(int(wanted[1]), 0):
        least = LEAST[int(wanted[1])]
        yield Finding(
            "driver",
            "error",
            f"driver {'.'.join(map(str, said))} is older than CUDA {wanted[1]} needs ({least})",
            f"a driver of branch {least} or newer on the host",
            WHY,
        )
    else:
        yield Finding("driver", "ok", f"driver {'.'.join(map(str, said))} for CUDA {wanted[1]}.{wanted[2]}")


def driver_version(node: Node) -> tuple[int, ...]:
    """The loaded kernel module's version, () where there is none."""
    match = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", node.text("proc/driver/nvidia/version"))
    return tuple(int(part) for part in match[1].split(".")) if match else ()
