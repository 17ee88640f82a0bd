"""Asks whether a Docker engine answers."""

from __future__ import annotations

import json

from slipway.engine.model import Engine, Unreachable
from slipway.errors import MissingError
from slipway.host import process

TIMEOUT = 20.0
"""Seconds an engine has to answer in."""


def probe(address: str = "") -> Engine | Unreachable:
    """The engine at `address` (DOCKER_HOST's form), or where the user's own settings point."""
    candidate = Engine("", "", address)
    if process.which("docker") is None:
        return Unreachable(installed=False, denied=False)
    try:
        result = candidate.docker("info", "--format", "{{json .}}", check=False, timeout=TIMEOUT, error=MissingError)
    except MissingError as error:
        return Unreachable(installed=True, denied=False, said=error.what)
    engine = read_info(result.out, address)
    if engine is not None:
        return engine
    said = result.err.strip() or result.out.strip()
    return Unreachable(installed=True, denied="permission denied" in said.lower(), said=said)


def read_info(text: str, address: str) -> Engine | None:
    """What `docker info` printed as JSON; None when no server stands behind it.

    The command prints JSON (about itself) and may even exit with 0 when the server can't be reached.
    """
    try:
        info = json.loads(text)
    except ValueError:
        return None
    version = info.get("ServerVersion") if isinstance(info, dict) else None
    if not version:
        return None
    status = info.get("DriverStatus") or []
    containerd = any(str(value).startswith("io.containerd.snapshotter") for row in status for value in row)
    return Engine(str(version), "containerd" if containerd else "classic", address)


def require() -> Engine:
    """The engine that the user's settings name. Raises MissingError, saying what to do, when it does not answer."""
    found = probe()
    if isinstance(found, Engine):
        return found
    raise no_engine(found)


def no_engine(found: Unreachable) -> MissingError:
    """The error for a machine on which no engine can be used."""
    if found.denied:
        return MissingError(
            "a Docker engine runs here, but this user may not use it",
            why=found.said,
            remedy="run: sudo usermod -aG docker $USER, then log in again; or run this as root",
        )
    if found.installed:
        return MissingError(
            "no Docker engine answers",
            why=found.said,
            remedy="start one (systemctl start docker), or point DOCKER_HOST at one",
        )
    return MissingError(
        "there is no Docker engine on this machine",
        remedy="install one (apt-get install docker.io), or point DOCKER_HOST at one and install its command line",
    )
