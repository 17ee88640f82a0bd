"""No variable of the environment sends KV another way than the configuration says."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.doctor.node import Node

PROVIDERS = "https://ofiwg.github.io/libfabric/main/man/fabric.7.html"
UCX = "https://openucx.readthedocs.io/en/master/faq.html"
NIXL = "https://github.com/ai-dynamo/nixl/blob/main/src/utils/libfabric/libfabric_common.cpp"


def check(node: Node) -> Iterator[Finding]:
    """FI_PROVIDER, FI_TCP_IFACE, UCX_TLS: set once for a trial, forgotten, inherited by every engine."""
    environ, wrong = node.environ, False
    provider, interface, tls = (environ.get(name, "") for name in ("FI_PROVIDER", "FI_TCP_IFACE", "UCX_TLS"))
    if provider == "efa" and not node.efa:
        wrong = True
        yield Finding(
            "transports",
            "error",
            "FI_PROVIDER=efa, and there is no EFA device: NIXL's LIBFABRIC has no provider",
            "unset FI_PROVIDER: NIXL takes efa where it is, tcp elsewhere",
            NIXL,
        )
    elif provider and provider != "efa" and node.efa:
        wrong = True
        yield Finding(
            "transports",
            "warning",
            f"FI_PROVIDER={provider}: EFA is here and will not be used",
            "unset FI_PROVIDER",
            PROVIDERS,
        )
    elif provider == "sockets":
        wrong = True
        yield Finding(
            "transports",
            "warning",
            "FI_PROVIDER=sockets: a tenth of the rate of tcp (0.2 against 2 GB/s)",
            "unset FI_PROVIDER, or say tcp",
            PROVIDERS,
        )
    if interface == "lo":
        wrong = True
        yield Finding(
            "transports",
            "error",
            "FI_TCP_IFACE=lo: NIXL's LIBFABRIC uses no loopback (NIXL_ERR_BACKEND)",
            "unset FI_TCP_IFACE",
            NIXL,
        )
    if tls and node.uses_gpu and not any(word in tls for word in ("cuda", "all", "^")):
        wrong = True
        yield Finding(
            "transports",
            "warning",
            f"UCX_TLS={tls}: without cuda transports UCX takes GPU memory through the host",
            "unset UCX_TLS, or add cuda",
            UCX,
        )
    if not wrong:
        yield Finding("transports", "ok", "nothing in the environment overrides the choice of transport")
