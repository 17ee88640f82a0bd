"""The Debian layer: its key, and how it is made from the locked packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipway.debian import bootstrap, repository, rules, sources, users
from slipway.debian.clean import Settings, clean
from slipway.debian.rootfs import Spool, read_rootfs
from slipway.errors import BuildFailed
from slipway.host.packages import Tool
from slipway.layers.blob import BlobWriter
from slipway.layers.cache import CachedLayer
from slipway.layers.files import fingerprint, tree
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.lock.model import Deb, Lock
from slipway.pins.model import Selection
from slipway.sandbox import isolation, machine, place, running
from slipway.sandbox.workshop import Workshop

KIND = "debian"
FILES = Path(__file__).resolve().parents[2] / "docker" / "debian"
"""Settings of apt and dpkg that come from no package; docker/rootfs goes into a layer that is cheap to make."""

TOOLS = (
    Tool("mmdebstrap", "mmdebstrap", "it makes the image's Debian layer from the locked packages"),
    Tool("apt-get", "apt", "mmdebstrap has it choose from the locked packages"),
    Tool("dpkg-deb", "dpkg", "mmdebstrap has it unpack them"),
    Tool("tar", "tar", "mmdebstrap has it pack the root file system"),
    Tool("unshare", "util-linux", "it takes the network away from packages' scripts"),
    Tool("setpriv", "util-linux", "it ends what was started when the driver is killed"),
    Tool("mount", "mount", "the root file system is made in memory where there is enough"),
)
"""What making the layer takes. A user who is not root also needs slipway.host.packages.UNPRIVILEGED and subuids."""

_UNPACKED, _SPARE = 6, 256 << 20
"""An unpacked tree takes up to 6 times its packages' bytes, and this much besides."""


def inputs(lock: Lock, selection: Selection, files: Path = FILES) -> dict[str, Any]:
    """What the layer's bytes depend on."""
    return {
        "debs": {deb.name: deb.sha256 for deb in lock.debs_for("image")},
        "suite": selection.suite,
        "arch": selection.arch,
        "rules": rules.FORMAT,
        "user": users.USER.as_json(),
        "setuid": sorted(selection.setuid),
        "files": fingerprint(tree(files)),
    }


def key(lock: Lock, selection: Selection, files: Path = FILES) -> str:
    """The layer's key."""
    return layer_key(KIND, inputs(lock, selection, files))


def build(lock: Lock, selection: Selection, workshop: Workshop, files: Path = FILES) -> CachedLayer:
    """The layer, from the cache or made now.

    Raises MissingError where this machine can't make it, WrongArtifact for a damaged package, BuildFailed when
    mmdebstrap fails, Cancelled when the build is.
    """
    name = key(lock, selection, files)
    return workshop.cache.build(
        name, lambda writer: _make(writer, name, lock.debs_for("image"), selection, workshop, files)
    )


def _make(
    writer: BlobWriter, name: str, debs: Sequence[Deb], selection: Selection, workshop: Workshop, files: Path
) -> None:
    apt = next((deb for deb in debs if deb.name == "apt"), None)
    if apt is None:
        raise BuildFailed("the lock has no apt package for the image", remedy="python3 build.py lock")
    machine.require(TOOLS, selection.arch)
    fence = isolation.for_owners()
    with (
        workshop.progress.step("debian", total=2 * len(debs)) as step,
        place.work_folder(workshop.cache.root / "work", fence) as folder,
        (folder / "spool").open("w+b") as file,
    ):
        (folder / "spool").unlink()
        packages = repository.read_packages([(deb, workshop.store.checked(deb)) for deb in debs])
        repository.write(folder / "archive", packages, selection.arch)
        (folder / "root").mkdir()
        with running.job(
            fence,
            "slipway.debian.bootstrap:inside",
            {
                "argv": bootstrap.arguments([each.label for each in packages], folder / "archive", selection.arch),
                "root": str(folder / "root"),
                "memory": _memory(debs, fence),
            },
            log=workshop.cache.root / "logs" / f"{KIND}-{name[:12]}.log",
            what="mmdebstrap",
            cancelled=workshop.cancelled,
            heard=lambda line: step.advance() if line.startswith(("Unpacking ", "Setting up ")) else None,
        ) as out:
            everything = read_rootfs(out, Spool(file), "mmdebstrap's tar")
        settings = Settings(
            sources=sources.from_package(workshop.store.path(apt.sha256), selection.suite),
            setuid=selection.setuid,
            files=tuple(tree(files)),
        )
        entries = clean(everything, settings)
        write_tar(entries, writer)
        step.note(f"{len(packages)} packages, {len(entries)} files")
    writer.notes.update(
        {"network": "off" if fence.strong else "not taken away", "packages": len(packages), "files": len(entries)}
    )


def _memory(debs: Sequence[Deb], fence: isolation.Isolation) -> int:
    """Bytes of memory to make the tree in, 0 for a folder on disk."""
    size = sum(deb.size for deb in debs) * _UNPACKED + _SPARE
    return size if fence.strong and place.fits_in_memory(size) else 0
