"""Libraries that keep state for a whole process are in the image once.

Two libfabric or two libibverbs in one process each believe that they own the network card, and NCCL falls back to
sockets without a word (https://github.com/aws/aws-ofi-nccl/issues/241); two CUDA runtimes have two current devices.
auditwheel renames what it vendors (libibverbs-1de1263b.so.1), so families are told by the name before the hash.

Subject of a finding: the path of each copy but the first; the one that the loader's cache names is the first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from slipway.gates.model import Finding, GateSettings
from slipway.inspect import elf
from slipway.inspect.image import Image
from slipway.inspect.tree import Node

NAME = "copies"
PROVES = "one libfabric, one libibverbs, one NCCL, one of each CUDA library"

_NAME = re.compile(r"lib([A-Za-z0-9_+]+?)(?:-[0-9a-f]{8,})?(?:-[0-9.]+)?\.so(?:\.[0-9.]+)?")
_ONCE = re.compile(
    r"fabric|ibverbs|rdmacm|efa|mlx5|nccl|nccl-net|mpi|uc[pstm]"
    r"|cudart|cublas|cublasLt|cudnn(_[a-z_]+)?|cufft|cufftw|cufile|cupti|curand|cusolver|cusolverMg|cusparse|cusparseLt"
    r"|nvJitLink|nvrtc|nvshmem_host|nvToolsExt|torch|torch_(cpu|cuda|python)|c10|c10_cuda"
)


def check(image: Image, settings: GateSettings) -> Iterator[Finding]:
    """See the module's text."""
    del settings
    loader = image.loader
    families: dict[str, dict[str, Node]] = defaultdict(dict)
    for node in image.tree.files():
        facts = node.member.elf
        if facts is None or facts.kind != elf.SHARED or not facts.for_host or "/stubs/" in node.path:
            continue
        match = _NAME.fullmatch(node.path.rpartition("/")[2])
        if match and _ONCE.fullmatch(match[1]):
            families[match[1]].setdefault(node.member.sha256, node)
    cached = {loader.tree.resolve(path.lstrip("/")) for path in (loader.cache or {}).values()}
    for family, by_content in sorted(families.items()):
        first, *others = sorted(by_content.values(), key=lambda node: (node.path not in cached, node.path))
        for node in others:
            yield Finding(
                node.path,
                f"{image.owner(node)} brings another lib{family}: the first is {first.path} ({image.owner(first)})",
                "code that gets one does not see what the other was told; which one is used depends on load order",
                f"leave one out, or move the pins so that both use {first.path}",
            )
