"""The OCI image configuration: how the image runs, and which layers it has.

Format: https://github.com/opencontainers/image-spec/blob/v1.1.0/config.md. No clock enters: `created` is the fixed
time that every member of a layer carries, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipway.layers.blob import Blob
from slipway.layers.tar import MTIME

CREATED = datetime.datetime.fromtimestamp(MTIME, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class ImageLayer:
    """A finished layer with its name and key, in the order in which it is unpacked."""

    name: str
    key: str
    blob: Blob


@dataclass(frozen=True)
class Runtime:
    """How containers of the image start; the field names are those of the OCI configuration."""

    user: str
    working_dir: str
    entrypoint: Sequence[str]
    cmd: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    exposed_ports: Sequence[str] = ()
    stop_signal: str = "SIGTERM"


def image_config(
    arch: str, runtime: Runtime, layers: Sequence[ImageLayer], labels: Mapping[str, str]
) -> dict[str, Any]:
    """The configuration as a JSON-ready object. `arch` is a GOARCH name ("amd64", "arm64")."""
    return {
        "architecture": arch,
        "config": {
            "Cmd": list(runtime.cmd),
            "Entrypoint": list(runtime.entrypoint),
            "Env": [f"{name}={value}" for name, value in sorted(runtime.env.items())],
            "ExposedPorts": {port: {} for port in sorted(runtime.exposed_ports)},
            "Labels": dict(sorted(labels.items())),
            "StopSignal": runtime.stop_signal,
            "User": runtime.user,
            "WorkingDir": runtime.working_dir,
        },
        "created": CREATED,
        "history": [
            {"created": CREATED, "created_by": f"slipway layer {layer.name}", "comment": f"key {layer.key}"}
            for layer in layers
        ],
        "os": "linux",
        "rootfs": {"diff_ids": [layer.blob.diff_id for layer in layers], "type": "layers"},
    }
