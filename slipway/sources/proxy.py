"""Which proxy a request takes: pip's or apt's own, else what HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from slipway.sources.settings import HttpSettings


def proxy_for(url: str, settings: HttpSettings, environ: Mapping[str, str]) -> str:
    """The proxy for an address, "" for none: the settings' first, then HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY.

    NO_PROXY may hold networks (`10.0.0.0/8`) too, as curl and Go read it.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    chosen = settings.host_proxies.get(host, settings.proxies.get(parts.scheme))
    if chosen is not None:
        return chosen
    proxies = environment_proxies(environ)
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy:
        return ""
    if bypassed(host, parts.port, proxies.get("no", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def environment_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """`{"http": …, "https": …, "all": …, "no": …}` from an environment; lower-case names win."""
    found: dict[str, str] = {}
    for name, value in sorted(environ.items()):  # upper case sorts before lower case
        scheme, underscore, word = name.lower().rpartition("_")
        if word == "proxy" and underscore:
            found[scheme] = value
    return found


def bypassed(host: str, port: int | None, no_proxy: str) -> bool:
    """Whether NO_PROXY names this host: `*`, a name (and all below it), `host:port`, an address, or a network."""
    for item in no_proxy.lower().replace(" ", ",").split(","):
        if not item:
            continue
        name = item.lstrip("*").lstrip(".")
        if item == "*" or (name and (host == name or host.endswith(f".{name}"))) or f"{host}:{port}" == name:
            return True
        if "/" in item and _in_network(host, item):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
