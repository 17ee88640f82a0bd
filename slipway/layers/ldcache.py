"""The layer that closes an image: /etc/ld.so.cache, made over the libraries of all layers below.

ld.so looks a library up in this file (ld.so(8)); the Debian layer, where Debian would make it, is finished before
libfabric comes. The image's own ldconfig makes it, which is linked statically, over a tree that holds nothing but the
libraries, links and settings it looks at. That needs no root: `ldconfig -r` does without chroot where it may not.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipway.errors import BuildFailed, MissingError
from slipway.host import process
from slipway.inspect.layout import LayerRef
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import TarMember, TarReader
from slipway.layers.blob import BlobWriter
from slipway.layers.cache import CachedLayer
from slipway.layers.entry import file_entry
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.sandbox import place
from slipway.sandbox.isolation import Isolation
from slipway.sandbox.workshop import Workshop

KIND = "ldcache"
FORMAT = 1
"""Part of the key: raise it when the same layers would give another cache."""

PATH = "etc/ld.so.cache"
LDCONFIG = ("usr/sbin/ldconfig", "sbin/ldconfig")
_OPTIONS = ("-X", "-i")
"""No links are made (packages bring theirs), and no older notes on libraries are trusted."""


def inputs(keys: Sequence[str]) -> dict[str, Any]:
    """What the layer's bytes depend on: the keys of the layers below that may bring libraries, lowest first."""
    return {"layers": list(keys), "format": FORMAT}


def key(keys: Sequence[str]) -> str:
    """The layer's key."""
    return layer_key(KIND, inputs(keys))


def build(layers: Sequence[CachedLayer], workshop: Workshop) -> CachedLayer:
    """The layer over `layers` (lowest first), from the cache or made now.

    The layers that count are those that bring files into folders of /etc/ld.so.conf: the Debian layer and the fabric
    layer. Raises BuildFailed when one is damaged, has no ldconfig, or ldconfig fails.
    """
    return workshop.cache.build(
        key([layer.key for layer in layers]), lambda writer: _make(writer, layers, workshop.cache.root / "work")
    )


def _make(writer: BlobWriter, layers: Sequence[CachedLayer], work: Path) -> None:
    with place.work_folder(work, Isolation("none")) as folder:
        tree = folder / "tree"
        tree.mkdir()
        for layer in layers:
            blob = layer.blob
            ref = LayerRef(0, str(layer.path), blob.digest, blob.size, blob.media_type, blob.diff_id, layer.checked())
            with ref.path.open("rb") as file:
                merge(TarReader(LayerStream(ref, file), str(layer.path)), tree)
        content = run_ldconfig(tree)
    write_tar([file_entry(PATH, content, origin="ldconfig")], writer)


def merge(layer: TarReader, tree: Path) -> None:
    """Lay what ldconfig looks at over what is in `tree`, as unpacking the layer would."""
    for member in layer:
        if not _matters(member):
            continue
        path = tree / member.path
        inside = path.parent.resolve().is_relative_to(tree.resolve())
        if not inside:
            raise BuildFailed(f"/{member.path} lies behind a link that leads out of the image", where=layer)
        if member.kind == "directory":
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        if member.kind == "symlink":
            path.symlink_to(member.target)
        elif member.kind == "hardlink":
            os.link(tree / member.target, path)
        else:
            with path.open("wb") as file:
                file.writelines(layer.content())
            if member.path in LDCONFIG:
                path.chmod(0o755)


def _matters(member: TarMember) -> bool:
    """Libraries, links that may lead to one, ldconfig and its settings."""
    if member.kind in ("device", "fifo") or not member.path:
        return False
    name = member.path.rpartition("/")[2]
    if member.kind == "directory":
        return member.path.count("/") < 2
    if member.kind == "symlink" and ("/" not in member.path or ".so" in name):
        return True
    return ".so" in name or member.path in LDCONFIG or member.path.startswith("etc/ld.so.conf")


def run_ldconfig(tree: Path) -> bytes:
    """The cache that the tree's own ldconfig makes of it."""
    program = next((tree / path for path in LDCONFIG if (tree / path).is_file()), None)
    if program is None:
        raise BuildFailed(
            "the layers have no ldconfig", where=" or ".join(LDCONFIG), remedy="lock the package libc-bin"
        )
    (tree / "etc").mkdir(exist_ok=True)
    environment: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            [program, "-r", tree, *_OPTIONS],
            env=environment,
            cwd="/",
            umask=0o022,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as problem:
        raise MissingError(
            "the image's ldconfig can't be run on this machine",
            where=program,
            why=str(problem),
            remedy="build on a machine of the image's architecture",
        ) from problem
    if done.returncode != 0 or not (tree / PATH).is_file():
        raise BuildFailed(f"ldconfig failed\n{process.last_lines(done.stdout.decode(errors='replace'))}", where=tree)
    return (tree / PATH).read_bytes()
