"""NIXL can make the backends that carry KV between nodes."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

WHY = "https://github.com/ai-dynamo/nixl/blob/main/src/plugins/libfabric/README.md"
DIED = "https://github.com/ai-dynamo/nixl/issues/1668"


def check(node: Node) -> Iterator[Finding]:
    """UCX and LIBFABRIC; without both there is no prefill/decode, without LIBFABRIC none over EFA."""
    found = node.loaded
    if found.died:
        yield Finding(
            "nixl_plugins",
            "error",
            f"a process that makes NIXL's backends ends with {found.died}",
            "run: NIXL_LOG_LEVEL=DEBUG python -m serve_app.doctor.loaded",
            DIED,
        )
        return
    failed = {name: why for name, why in found.backends.items() if why}
    for name, reason in failed.items():
        needed = name == "LIBFABRIC" and bool(node.efa)
        none_left = len(failed) == len(found.backends)
        yield Finding(
            "nixl_plugins",
            "error" if needed or none_left else "warning",
            f"NIXL can't make {name}: {reason}",
            remedy(name, reason),
            WHY,
        )
    made = [name for name, why in found.backends.items() if not why]
    if made:
        with_library = [
            f"{name} ({', '.join(found.files(library)[:1]) or 'built in'})"
            for name, library in (("UCX", "libucp"), ("LIBFABRIC", "libfabric"))
            if name in made
        ]
        yield Finding("nixl_plugins", "ok", f"NIXL makes {', '.join(with_library)}")


def remedy(backend: str, reason: str) -> str:
    """The likely cure for what ld.so or NIXL said."""
    if "FABRIC_" in reason:
        return "the plugin is newer than the image's libfabric: pin a libfabric that has this symbol version, or an older nixl"
    if "No such file" in reason:
        return "install the library that is named"
    if "NIXL_ERR_BACKEND" in reason and backend == "LIBFABRIC":
        return "libfabric's tcp needs an interface besides lo with an address of its own; unset FI_TCP_IFACE=lo"
    return "run: NIXL_LOG_LEVEL=DEBUG python -m serve_app.doctor.loaded"
