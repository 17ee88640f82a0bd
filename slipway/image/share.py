"""The image's own files: its entrypoint, and what it is made of, for whoever looks at a running container."""

from __future__ import annotations

from pathlib import Path

from slipway.image.definition import SHARE
from slipway.layers.entry import Entry, file_entry
from slipway.layers.files import tree
from slipway.lock import file
from slipway.lock.model import Lock

FILES = Path("docker") / "rootfs"
"""Folder of the checkout whose tree is copied into the image as it is."""


def entries(root: Path, lock: Lock) -> list[Entry]:
    """Files of docker/rootfs, the lock, and pip's constraints."""
    return [
        *tree(root / FILES),
        file_entry(f"{SHARE}/lock.toml", file.dump(lock).encode()),
        file_entry(f"{SHARE}/constraints.txt", constraints(lock).encode()),
    ]


def constraints(lock: Lock) -> str:
    """A constraints file for pip and uv: `pip install -c` adds packages without moving the proven ones."""
    head = "# The image's own versions: pip install -c /opt/slipway/constraints.txt PACKAGE\n"
    return head + "".join(f"{wheel.name}=={wheel.version}\n" for wheel in lock.wheels)
