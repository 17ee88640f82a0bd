"""NIXL can make the backends that carry KV between nodes."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/ai-dynamo/nixl/blob/main/src/plugins/libfabric/README.md"
OWN = {"UCX": "libucp", "LIBFABRIC": "libfabric"}
"""Backend → the library that it is made of."""

DIED = "https://github.com/ai-dynamo/nixl/issues/1668"


def check(node: Node) -> Iterator[Finding]:
    """UCX and LIBFABRIC; without both there is no prefill/decode, without LIBFABRIC none over EFA."""
    bad = {name: one for name, one in node.loaded.items() if one.error or one.died}
    for name, one in bad.items():
        needed = (name == "LIBFABRIC" and bool(node.efa)) or len(bad) == len(node.loaded)
        what = f"NIXL can't make {name}: {one.error}" if one.error else f"a process with NIXL's {name} ends: {one.died}"
        yield Finding(
            "nixl_plugins",
            "error" if needed else "warning",
            what,
            remedy(name, one.error),
            WHY if one.error else DIED,
        )
    made = [f"{name} ({', '.join(one.files(OWN[name])[:1])})" for name, one in node.loaded.items() if name not in bad]
    if made:
        yield Finding("nixl_plugins", "ok", f"NIXL makes {', '.join(made)}")


def remedy(backend: str, reason: str) -> str:
    """The likely cure for what ld.so or NIXL said."""
    if "FABRIC_" in reason:
        return "the plugin is newer than libfabric: pin a libfabric that has this symbol version, or an older nixl"
    if "No such file" in reason:
        return "install the library that is named"
    if "NIXL_ERR_BACKEND" in reason and backend == "LIBFABRIC":
        return "libfabric's tcp needs an interface besides lo with an address of its own; unset FI_TCP_IFACE=lo"
    return f"run: NIXL_LOG_LEVEL=DEBUG python -m serve_app.doctor.loaded {backend}"
