"""What Slipway's image looks like to whoever runs it: user, environment, entrypoint, labels.

This is a contract with deployment repos (docs/design.md, "The image's contract").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from slipway.image.config import Runtime
from slipway.layers import blob, cuda_home, tar
from slipway.lock import file
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


CUDA_HOME = f"/{cuda_home.HOME}"


def runtime(layers: Collection[str]) -> Runtime:
    """How containers of an image with these layers start: where there is a CUDA toolkit, its place is told."""
    if cuda_home.NAME not in layers:
        return RUNTIME
    env = {**RUNTIME.env, "CUDA_HOME": CUDA_HOME, "PATH": f"{RUNTIME.env['PATH']}:{CUDA_HOME}/bin"}
    return replace(RUNTIME, env=env)


def reference(selection: Selection) -> str:
    """The name that `docker load` gives the image, e.g. slipway:2.60-cpu. A CUDA image whose fabric is not the EFA
    installer's is for development, and its name says so (slipway.push.tags has the same rule for registries)."""
    suffix = "" if selection.arch == "amd64" else f"-{selection.arch}"
    if selection.variant == "cuda" and selection.fabric_label != "installer":
        suffix = f"-{selection.fabric_label}-fabric{suffix}"
    return f"{REPOSITORY}:{selection.release}-{selection.variant}{suffix}"


def version_of(lock: Lock, *names: str) -> str:
    """The locked version of the first of these wheels that the lock has, "" for none."""
    by_name = {wheel.name: wheel.version for wheel in lock.wheels}
    return next((by_name[name] for name in names if name in by_name), "")


def debian_of(lock: Lock) -> str:
    """The number of the Debian release: what the version of its base-files begins with; "" for a lock without it."""
    version = next((deb.version for deb in lock.debs if deb.name == "base-files"), "")
    match = re.match(r"\d+", version)
    return match[0] if match else ""


def base_labels(name: str) -> Mapping[str, str]:
    """What says that an image stands on a base, by the names of the OCI image specification (annotations.md)."""
    reference, _, digest = name.partition("@")
    return {"org.opencontainers.image.base.name": reference, "org.opencontainers.image.base.digest": digest}


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
        "io.slipway.lock": f"sha256:{hashlib.sha256(file.dump(lock).encode()).hexdigest()}",
        "io.slipway.fabric": selection.fabric_label,
        "io.slipway.nccl-over-efa": "yes" if selection.fabric_label == "installer" else "no",
        "io.slipway.format": f"tar{tar.FORMAT} {blob.compressor_name()}",
        "io.slipway.version.ray": ray,
        "io.slipway.version.vllm": version_of(lock, "vllm"),
        "io.slipway.version.torch": version_of(lock, "torch"),
        "io.slipway.version.nixl": version_of(lock, "nixl"),
        "io.slipway.version.cuda": version_of(lock, "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
        "io.slipway.version.python": selection.python,
        "io.slipway.version.debian": debian_of(lock),
        "io.slipway.version.efa-installer": lock.installers[0].version if lock.installers else "",
        "io.slipway.version.libfabric": selection.libfabric.version if selection.fabric == "source" else "",
    }
