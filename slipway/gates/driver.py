"""What belongs to the GPU's driver is the node's, and is mounted when a container starts. Subject: the path.

A libcuda.so.1 in the image that the loader finds first is used instead of the node's: error 803, or no GPU at all
(https://github.com/vllm-project/vllm/issues/34821). Link-time stubs in a stubs folder are harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect.image import Image

NAME = "driver"
PROVES = "no library of the GPU's driver is in the image"

DRIVER = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvoptix|nvidia-[a-z0-9-]+)\.so(\.[0-9.]+)?"
    r"|lib(GLX|EGL|GLESv1_CM|GLESv2)_nvidia\.so\.0"
)
"""What NVIDIA's container toolkit mounts into a container (libnvidia-container's lists), by library name."""


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    loader = image.loader
    cached = {loader.tree.resolve(path.lstrip("/")) for path in (loader.cache or {}).values()}
    seen = set()
    for name, nodes in sorted(loader.by_soname.items()):
        for node in nodes if DRIVER.fullmatch(name) else ():
            if ("/stubs/" in node.path and node.path not in cached) or node.path in seen:
                continue
            seen.add(node.path)
            yield Finding(
                node.path,
                f"{image.owner(node)} brings {name}, which belongs to the GPU's driver",
                "where it is found first, the node's driver is not used: error 803, or no GPU at all",
                "leave it out; compatibility libraries are put in front at start, where the driver is old",
            )
