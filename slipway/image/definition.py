"""What Slipway's image looks like to whoever runs it: user, environment, entrypoint, labels.

This is a contract with deployment repos (docs/design.md, "The image's contract").
"""

from __future__ import annotations

from collections.abc import Mapping

from slipway.image.config import Runtime
from slipway.layers import blob, tar
from slipway.lock.model import Lock
from slipway.pins.model import Selection

REPOSITORY = "slipway"
SHARE = "opt/slipway"
"""Folder of the image's own files: the entrypoint, the lock, constraints.txt."""

UCX_MODULES = "^rdmacm,efa"
"""UCX modules that NIXL must not load: they are linked with Debian's libibverbs and libnl, the others with copies that
NIXL's wheel brings, and a process that has both dies of SIGSEGV when it ends. UCX's connection manager is not used by
NIXL, and EFA is reached through libfabric."""

RUNTIME = Runtime(
    user="1000:0",
    working_dir="/home/ray",
    entrypoint=("/usr/bin/tini", "--", "/opt/slipway/entrypoint"),
    exposed_ports=("8000/tcp",),
    env={
        # A pod's command replaces the entrypoint; bash reads this file whenever it runs a command or a script.
        "BASH_ENV": f"/{SHARE}/environment",
        "DO_NOT_TRACK": "1",
        "HOME": "/home/ray",
        "LANG": "C.UTF-8",
        # For programs that are started without the entrypoint and without a shell, by a user id of no name: torch and
        # Ray give up where nobody can tell them who they are.
        "LOGNAME": "ray",
        "PATH": "/opt/venv/bin:/opt/amazon/efa/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TZ": "UTC",
        "UCX_MODULES": UCX_MODULES,
        "USER": "ray",
        "VIRTUAL_ENV": "/opt/venv",
        "VLLM_NO_USAGE_STATS": "1",
    },
)


def reference(selection: Selection) -> str:
    """The name that `docker load` gives the image, e.g. slipway:2.60-cpu."""
    suffix = "" if selection.arch == "amd64" else f"-{selection.arch}"
    return f"{REPOSITORY}:{selection.release}-{selection.variant}{suffix}"


def version_of(lock: Lock, *names: str) -> str:
    """The locked version of the first of these wheels that the lock has, "" for none."""
    by_name = {wheel.name: wheel.version for wheel in lock.wheels}
    return next((by_name[name] for name in names if name in by_name), "")


def labels(selection: Selection, lock: Lock) -> Mapping[str, str]:
    """Labels of the configuration and annotations of the manifest: which pins these bytes are, and nothing of where
    or when they were put together."""
    ray = version_of(lock, "ray")
    return {
        "org.opencontainers.image.title": f"Ray Serve LLM, {selection.variant}",
        "org.opencontainers.image.description": "Ray Serve LLM with vLLM, NIXL and libfabric for prefill and decode on "
        "different nodes",
        "org.opencontainers.image.version": ray,
        "io.slipway.release": selection.release,
        "io.slipway.variant": selection.variant,
        "io.slipway.pins": lock.pins,
        "io.slipway.fabric": selection.fabric,
        "io.slipway.format": f"tar{tar.FORMAT} {blob.compressor_name()}",
        "io.slipway.version.ray": ray,
        "io.slipway.version.vllm": version_of(lock, "vllm"),
        "io.slipway.version.torch": version_of(lock, "torch"),
        "io.slipway.version.nixl": version_of(lock, "nixl"),
        "io.slipway.version.libfabric": selection.libfabric.version if selection.fabric == "source" else "",
    }
