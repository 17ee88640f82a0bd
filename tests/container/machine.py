"""How this machine reaches package archives, for containers that have to reach them too. Nothing of it is committed:
pip, apt and the environment are asked when the tests run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slipway.host import process
from slipway.sources import apt, pip
from slipway.sources.address import local_path
from slipway.sources.tls import SYSTEM_CA

CA_IN_CONTAINER = "/run/secrets/ca"
PROXIES = tuple(name for name in process.NETWORK if name.lower().endswith("_proxy"))


@dataclass(frozen=True)
class Network:
    """environment: variables for pip and apt in a container; ca: this machine's certificate authorities, if any."""

    environment: tuple[tuple[str, str], ...]
    ca: Path | None

    @property
    def options(self) -> tuple[str, ...]:
        """For `docker run`: the machine's own network, its authorities and its settings."""
        mounts = ("--volume", f"{self.ca}:{CA_IN_CONTAINER}:ro") if self.ca else ()
        return (
            "--network",
            "host",
            *mounts,
            *(word for pair in self.environment for word in ("--env", "=".join(pair))),
        )

    @property
    def shell(self) -> str:
        """The same as the start of a shell command."""
        return "".join(f"export {name}='{value}'; " for name, value in self.environment)


@cache
def network() -> Network:
    """What pip and the environment of this machine say. Addresses of local folders mean nothing in a container."""
    config = pip.ask()
    found = {name: os.environ[name] for name in PROXIES if name in os.environ}
    ca = next((path for path in (Path(config.cert or "/nowhere"), SYSTEM_CA) if path.is_file()), None)
    if ca:
        found |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), CA_IN_CONTAINER)
    if config.index and not config.index_is_default and local_path(config.index) is None:
        found["PIP_INDEX_URL"] = found["UV_DEFAULT_INDEX"] = config.index
    if extra := [index for index in config.extra_indexes if local_path(index) is None]:
        found["PIP_EXTRA_INDEX_URL"] = " ".join(extra)
    if config.trusted_hosts:
        found["PIP_TRUSTED_HOST"] = " ".join(sorted(config.trusted_hosts))
    if config.proxy:
        found["PIP_PROXY"] = config.proxy
    return Network(tuple(sorted(found.items())), ca)


def apt_sources(own: str) -> str | None:
    """The image's own sources with this machine's mirror in place of theirs; None where that is the same one.

    On a machine that is no Debian there is nothing to take over.
    """
    archives = [archive for archive in apt.configured() if archive.is_debian and archive.root.startswith("http")]
    plain = [a.root for a in archives if not any(suite.endswith("-security") for suite in a.suites)]
    security = [a.root for a in archives if any(suite.endswith("-security") for suite in a.suites)]
    lines = []
    for line in own.splitlines():
        if line.startswith("URIs:"):
            mirrors = security if "security" in line else plain
            line = f"URIs: {mirrors[0]}" if mirrors else line.rstrip().rstrip("/")
        lines.append(line)
    changed = "\n".join(lines) + "\n"
    same = [line.rstrip("/") for line in own.splitlines()] == [line.rstrip("/") for line in lines]
    return None if same else changed
