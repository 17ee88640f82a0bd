"""How one group of servers is reached: pip's, apt's, registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class HttpSettings:
    """What differs between the groups.

    ca_files:      more authorities to trust, besides the system's and those in CA_VARIABLES
    client_cert:   PEM file with certificate and key, for servers that ask for one
    trusted_hosts: `host` or `host:port` whose certificate is not checked (pip's trusted-host: bytes are pinned anyway)
    proxies:       scheme → proxy address; "" means none. Schemes not named follow HTTP_PROXY, HTTPS_PROXY, NO_PROXY
    host_proxies:  the same for single hosts (apt's Acquire::http::Proxy::host)
    timeout:       seconds to wait for the next byte
    netrc_files:   where user names and passwords of servers stand
    """

    ca_files: tuple[Path, ...] = ()
    client_cert: Path | None = None
    trusted_hosts: frozenset[str] = frozenset()
    proxies: Mapping[str, str] = field(default_factory=dict)
    host_proxies: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60.0
    netrc_files: tuple[Path, ...] = ()
