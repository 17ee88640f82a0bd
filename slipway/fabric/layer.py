"""The fabric layer, made from source: libfabric below /opt/amazon/efa, and stand-ins for CUDA where there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipway.debian.bootstrap import merged_links
from slipway.debian.rootfs import Spool, read_rootfs, relink
from slipway.errors import BuildFailed, MissingError, UsageError
from slipway.host.packages import Tool
from slipway.layers.blob import BlobWriter
from slipway.layers.cache import CachedLayer
from slipway.layers.entry import Entry, file_entry
from slipway.layers.files import fingerprint, tree
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.lock.model import Lock, Source
from slipway.pins.model import Selection
from slipway.sandbox import compile as compiling
from slipway.sandbox import isolation, machine, place, running, unpack
from slipway.sandbox.workshop import Workshop

KIND = "fabric"
FORMAT = 1
"""Part of the layer's key: raise it when this module would make other bytes of the same output."""

DOCKER = Path(__file__).resolve().parents[2] / "docker"
PREFIX = "opt/amazon/efa"
STUBS = "opt/slipway/cuda-stubs"
LOADER = {f"{PREFIX}/lib": "etc/ld.so.conf.d/000_efa.conf", STUBS: "etc/ld.so.conf.d/zz-slipway-cuda-stubs.conf"}
"""Folders of libraries, and the file that makes ld.so find them (ldconfig(8)). They are read in the files' order: this
libfabric goes before one from Debian, a real CUDA before the stubs."""

TOOLS = (
    Tool("unshare", "util-linux", "it takes the network away from what is compiled"),
    Tool("setpriv", "util-linux", "it ends what was started when the driver is killed"),
    Tool("mount", "mount", "libfabric is compiled in memory where there is enough"),
    Tool("chroot", "coreutils", "libfabric is compiled with the locked compiler, not with this machine's"),
)
"""What making the layer takes."""

_PHASES = 9
"""How many lines of the log begin with compile.MARK."""

_UNPACKED, _SPARE = 6, 384 << 20
"""A tree of packages takes up to 6 times their bytes; sources, objects and what is installed take this much."""


def recipe(selection: Selection, docker: Path = DOCKER) -> dict[str, Path]:
    """What the sandbox finds in /build besides the source: name → file of this checkout."""
    files = {entry.path: docker / "libfabric" / entry.path for entry in tree(docker / "libfabric")}
    if has_stubs(selection):
        folder = docker / selection.variant / "stubs"
        files |= {f"stubs/{entry.path}": folder / entry.path for entry in tree(folder)}
    return files


def has_stubs(selection: Selection) -> bool:
    """Whether the image has stand-ins for CUDA: only where no GPU is used."""
    return selection.variant == "cpu"


def inputs(lock: Lock, selection: Selection, sandbox: str = "strong", docker: Path = DOCKER) -> dict[str, Any]:
    """What the layer's bytes depend on. One from a weak sandbox has a key of its own: it never passes for strong."""
    files = recipe(selection, docker)
    entries = [file_entry(name, path.read_bytes()) for name, path in files.items()]
    document: dict[str, Any] = {
        "source": {source.name: source.sha256 for source in lock.sources},
        "debs": {deb.name: deb.sha256 for deb in lock.debs_for("build")},
        "recipe": fingerprint(entries),
        "suite": selection.suite,
        "arch": selection.arch,
        "format": FORMAT,
        "sandbox_format": unpack.FORMAT,
    }
    return document if sandbox == "strong" else {**document, "sandbox": sandbox}


def key(lock: Lock, selection: Selection, sandbox: str = "strong", docker: Path = DOCKER) -> str:
    """The layer's key."""
    return layer_key(KIND, inputs(lock, selection, sandbox, docker))


def build(lock: Lock, selection: Selection, workshop: Workshop, docker: Path = DOCKER) -> CachedLayer:
    """The layer, from the cache or made now.

    Raises MissingError where the network can't be taken away (and `workshop.sandbox` is not "weak"), BuildFailed when
    compiling fails, WrongArtifact for a damaged package, Cancelled when the build is.
    """
    name = key(lock, selection, workshop.sandbox, docker)
    return workshop.cache.build(
        name, lambda writer: _make(writer, name, lock, selection, workshop, recipe(selection, docker))
    )


def _make(
    writer: BlobWriter,
    name: str,
    lock: Lock,
    selection: Selection,
    workshop: Workshop,
    files: Mapping[str, Path],
) -> None:
    machine.require(TOOLS, selection.arch)
    fence = _fence(workshop.sandbox)
    debs, source = lock.debs_for("build"), _source(lock.sources)
    size = sum(deb.size for deb in debs) * _UNPACKED + _SPARE
    parent = workshop.cache.root / "work"
    with (
        workshop.progress.step("libfabric", total=_PHASES) as step,
        place.work_folder(parent, fence) as folder,
        (folder / "spool").open("w+b") as file,
    ):
        (folder / "root").mkdir()
        with running.job(
            fence,
            "slipway.sandbox.compile:inside",
            {
                "root": str(folder / "root"),
                "memory": size if fence.strong and place.fits_in_memory(size) else 0,
                "debs": [str(workshop.store.checked(deb).absolute()) for deb in debs],
                "links": merged_links(selection.arch),
                "files": {
                    **{path: str(file.absolute()) for path, file in files.items()},
                    "libfabric.tar.xz": str(workshop.store.checked(source).absolute()),
                },
                "argv": ["/bin/bash", "-c", f"cd {compiling.BUILD} && exec bash build.sh"],
                "jobs": running.cores(),
            },
            log=workshop.cache.root / "logs" / f"{KIND}-{name[:12]}.log",
            what="compiling libfabric",
            cancelled=workshop.cancelled,
            heard=lambda line: step.advance() if line.startswith(compiling.MARK) else None,
        ) as out:
            made = read_rootfs(out, Spool(file), "the sandbox's output")
        write_tar(finished(made), writer)
        step.note(f"{source.version}, {len(made)} files")
    writer.notes.update({"sandbox": workshop.sandbox, "network": "off" if fence.strong else "not taken away"})


def finished(made: Sequence[Entry]) -> list[Entry]:
    """The layer's entries: what was installed, and what makes ld.so find it."""
    entries = relink([_plain(entry) for entry in made if entry.kind != "directory"], list(made))
    paths = {entry.path for entry in entries}
    for folder, config in LOADER.items():
        if any(path.startswith(folder + "/") for path in paths):
            entries.append(file_entry(config, f"/{folder}\n".encode(), origin="fabric"))
    if not any(re.fullmatch(rf"{PREFIX}/lib/libfabric\.so\.\d+", path) for path in paths):
        raise BuildFailed("the recipe installed no libfabric", where=f"/{PREFIX}/lib")
    return entries


def _plain(entry: Entry) -> Entry:
    mode = 0o777 if entry.kind == "symlink" else 0o755 if entry.mode & 0o100 else 0o644
    return replace(entry, mode=mode, uid=0, gid=0, xattrs={})


def _fence(sandbox: str) -> isolation.Isolation:
    if sandbox == "strong":
        return isolation.for_compiling()
    if sandbox != "weak":
        raise UsageError(f"no sandbox is called {sandbox!r}", remedy="strong, or weak")
    try:
        return isolation.for_compiling()
    except MissingError as missing:
        return isolation.without_namespaces(missing)


def _source(sources: Sequence[Source]) -> Source:
    for source in sources:
        if source.name == "libfabric":
            return source
    raise BuildFailed("the lock has no source of libfabric", remedy="python3 build.py lock")
