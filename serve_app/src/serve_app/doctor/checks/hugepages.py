"""EFA's provider finds huge pages for its buffers."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"


def check(node: Node) -> Iterator[Finding]:
    """Only where there is EFA. Reserved pages that are all taken are worse than none: allocations then fail late."""
    if not node.efa:
        return
    total, free = (int(node.field("proc/meminfo", name) or 0) for name in ("HugePages_Total", "HugePages_Free"))
    if total and not free:
        yield Finding(
            "hugepages",
            "warning",
            f"all {total} huge pages are taken: EFA falls back to small ones",
            "more of them on the host (vm.nr_hugepages, 5128 as EKS's AMI has), and hugepages-2Mi in the pod's "
            "resources",
            WHY,
        )
    elif not total:
        yield Finding("hugepages", "note", "the host reserves no huge pages: EFA uses small ones")
    else:
        yield Finding("hugepages", "ok", f"{free} of {total} huge pages are free")
