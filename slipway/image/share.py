"""The image's own files: its entrypoint, and what it is made of, for whoever looks at a running container."""

from __future__ import annotations

from pathlib import Path

from slipway.image.definition import SHARE
from slipway.layers.entry import Entry, file_entry
from slipway.layers.files import tree
from slipway.lock import file
from slipway.lock.model import Lock
from slipway.supply.components import components, read_licences, table

FILES = Path("docker") / "rootfs"
"""Folder of the checkout whose tree is copied into the image as it is."""

LICENCES = Path("docker") / "licences"
"""Texts of what is compiled: one folder a source package."""


def entries(root: Path, lock: Lock) -> list[Entry]:
    """Files of docker/rootfs, the lock, pip's constraints, and licences with source addresses.

    Licence texts of wheels and .debs lie where those put them (the table says where); what is compiled from a source
    tarball has its text in docker/licences."""
    found = components(lock, read_licences(root / "locks"))
    return [
        *tree(root / FILES),
        file_entry(f"{SHARE}/lock.toml", file.dump(lock).encode()),
        file_entry(f"{SHARE}/constraints.txt", constraints(lock).encode()),
        file_entry(f"{SHARE}/licences.tsv", table(found).encode()),
        *(
            file_entry(f"{SHARE}/licences/{source.name}/{path.name}", path.read_bytes())
            for source in lock.sources
            for path in sorted((root / LICENCES / source.name).glob("*"))
        ),
    ]


def constraints(lock: Lock) -> str:
    """A constraints file for pip and uv: `pip install -c` adds packages without moving the proven ones."""
    head = "# The image's own versions: pip install -c /opt/slipway/constraints.txt PACKAGE\n"
    return head + "".join(f"{wheel.name}=={wheel.version}\n" for wheel in lock.wheels)
