"""The fabric layer, taken from Amazon's EFA installer: its packages are unpacked, its scripts are not run.

What enters the image is what slipway.fabric.packages takes: libfabric with the efa provider, libibverbs with its
providers, aws-ofi-nccl. dpkg does not know of it; /opt/slipway/fabric.json does, and the SBOM is made from that.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from isal import igzip, igzip_lib

from slipway.debian.control import field
from slipway.debian.deb import tar_in
from slipway.debian.rootfs import Spool, read_members, relink
from slipway.errors import BuildFailed, WrongArtifact
from slipway.fabric import effects, packages
from slipway.inspect.untar import TarReader
from slipway.layers.blob import BlobWriter
from slipway.layers.cache import CachedLayer
from slipway.layers.entry import Entry, file_entry
from slipway.layers.key import layer_key
from slipway.layers.tar import write_tar
from slipway.lock.model import EfaInstaller, Lock
from slipway.pins.model import Selection
from slipway.sandbox.workshop import Workshop

KIND = "fabric-installer"
FORMAT = 1
"""Part of the layer's key: raise it when this module would make other bytes of the same tarball."""

STAND_IN = f"{packages.TOP}/STAND-IN"
"""A tarball with this member is no installer of Amazon's, and says why; the pin has to say it too."""

BILL = "opt/slipway/fabric.json"
"""What was taken from the installer and what was not, with every effect of a script that was not run."""

_BROKEN = (cast("type[Exception]", igzip_lib.IsalError), gzip.BadGzipFile, EOFError)

LOADER = "etc/ld.so.conf.d/000_efa.conf"
_LIBRARY = re.compile(r"(opt/amazon/[^/]+/lib(?:64)?(?:/[^/]+-linux-gnu)?)/lib[^/]+\.so(\.[0-9.]+)?")
_USELESS = re.compile(
    r"usr/share/(man|lintian|bug|bash-completion|info)/.*"
    r"|usr/share/doc/[^/]+/(?!copyright$).*"
    r"|usr/lib/(systemd|udev|modules-load\.d|sysctl\.d|dracut)/.*"
    r"|etc/(ld\.so\.conf\.d|profile\.d|init\.d|systemd|udev|security|modprobe\.d|rdma)/.*"
    r"|opt/amazon/[^/]+/share/man/.*"
)
"""What belongs to a node or to readers; ld.so's folders are written by us."""

_MERGED = re.compile(r"(bin|sbin|lib|lib32|lib64|libx32)/")
"""Folders that are links in a merged-/usr system: a folder in their place would hide the whole system's libraries."""


@dataclass(frozen=True)
class Package:
    """One package of the installer. sha256: of the .deb; entries: its files, for one that is taken."""

    name: str
    version: str
    arch: str
    sha256: str
    choice: packages.Choice
    effects: tuple[effects.Effect, ...] = ()
    entries: tuple[Entry, ...] = ()

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "package": self.name,
            "version": self.version,
            "architecture": self.arch,
            "reason": self.choice.reason,
        }
        if self.choice.taken:
            document |= {
                "sha256": self.sha256,
                "purl": f"pkg:deb/aws/{self.name}@{self.version}?arch={self.arch}",
                "effects": [effect.as_json() for effect in self.effects],
            }
        return document


def inputs(lock: Lock, selection: Selection) -> dict[str, Any]:
    """What the layer's bytes depend on."""
    return {
        "installer": _of(lock).sha256,
        "stand_in": _stand_in(selection),
        "system": selection.efa_system,
        "arch": selection.arch,
        "taken": sorted(packages.TAKEN),
        "format": FORMAT,
    }


def key(lock: Lock, selection: Selection) -> str:
    """The layer's key."""
    return layer_key(KIND, inputs(lock, selection))


def build(lock: Lock, selection: Selection, workshop: Workshop) -> CachedLayer:
    """The layer, from the cache or made now.

    Raises WrongArtifact for a tarball that is damaged, BuildFailed for one that has not what an image needs, or that
    is a stand-in where the pin says nothing of it.
    """
    installer = _of(lock)

    def make(writer: BlobWriter) -> None:
        tarball = workshop.store.checked(installer)
        with workshop.progress.step("fabric") as step, tempfile.TemporaryFile() as spool:
            found = read(tarball, selection, Spool(spool))
            write_tar(finished(found, installer, selection), writer)
            taken = [package for package in found if package.choice.taken]
            for package in found:
                if not package.choice.known:
                    workshop.progress.warn(f"EFA installer: {package.name} {package.version}: {package.choice.reason}")
            for package in taken:
                for effect in package.effects:
                    if effect.went == effects.UNKNOWN:
                        workshop.progress.warn(
                            f"EFA installer: {package.name}, {effect.script}: `{effect.command}` is {effect.went}"
                        )
            writer.notes["packages"] = [package.as_json() for package in taken]
            step.note(f"EFA installer {installer.version}, {len(taken)} of {len(found)} packages")

    return workshop.cache.build(key(lock, selection), make)


def read(tarball: Path, selection: Selection, spool: Spool) -> list[Package]:
    """All packages for the image's system, those that are taken with their files (contents in `spool`)."""
    folder = f"{packages.TOP}/DEBS/{selection.efa_system}/{packages.MACHINES[selection.arch]}/"
    found: list[Package] = []
    systems: set[str] = set()
    stand_in = ""
    with igzip.IGzipFile(str(tarball), "rb") as stream:  # type: ignore[no-untyped-call]
        tar = TarReader(cast(BinaryIO, stream), tarball.name)
        try:
            for member in tar:
                parts = member.path.split("/")
                if parts[1:2] == ["DEBS"] and len(parts) > 3:
                    systems.add("/".join(parts[2:4]))
                if member.path == STAND_IN:
                    stand_in = b"".join(tar.content()).decode().strip()
                if member.kind == "file" and member.path.startswith(folder) and member.path.endswith(".deb"):
                    found.append(_package(member.path, b"".join(tar.content()), spool))
        except _BROKEN as problem:
            raise WrongArtifact("the EFA installer can't be decompressed", where=tarball, why=str(problem)) from problem
    if stand_in and not _stand_in(selection):
        raise BuildFailed(
            "the EFA installer is a stand-in",
            where=tarball.name,
            why=stand_in,
            remedy="say so in versions.toml (stand-in = …) beside its hash, or pin a real one",
        )
    lacking = sorted(set(packages.REQUIRED) - {package.name for package in found})
    if lacking:
        raise BuildFailed(
            f"the EFA installer has no {', '.join(lacking)} for this image",
            where=f"{tarball.name}, {folder}",
            why=f"it has packages for {', '.join(sorted(systems)) or 'no system at all'}",
            remedy=f"write the system's folder in versions.toml (suites.{selection.suite}.efa-system)",
        )
    return sorted(found, key=lambda package: (package.name, package.version))


def _package(path: str, content: bytes, spool: Spool) -> Package:
    name = path.rpartition("/")[2]
    about = ""
    scripts: list[tuple[str, str]] = []
    with tar_in(io.BytesIO(content), name, "control") as tar:
        for member in tar:
            if member.path == "control":
                about = b"".join(tar.content()).decode("utf-8")
            elif member.path in effects.SCRIPTS:
                scripts.append((member.path, b"".join(tar.content()).decode("utf-8", "replace")))
    package, version, arch = (field(about, key) for key in ("Package", "Version", "Architecture"))
    if not (package and version and arch):
        raise WrongArtifact("a package of the EFA installer has no name or version", where=path)
    choice = packages.choose(package)
    entries: Sequence[Entry] = ()
    if choice.taken:
        with tar_in(io.BytesIO(content), name, "data") as tar:
            entries = _files(tar, spool, f"{package} {version}")
    order = {script: place for place, script in enumerate(effects.SCRIPTS)}
    return Package(
        package,
        version,
        arch,
        hashlib.sha256(content).hexdigest(),
        choice,
        tuple(effects.effects(sorted(scripts, key=lambda script: order[script[0]]))),
        tuple(entries),
    )


def finished(found: Sequence[Package], installer: EfaInstaller, selection: Selection) -> list[Entry]:
    """The layer's entries: files of the packages that are taken, ld.so's folders, and the bill."""
    entries: dict[str, Entry] = {}
    for package in found:
        for entry in package.entries:
            before = entries.get(entry.path)
            if before is not None:
                raise BuildFailed(f"{before.origin} and {entry.origin} both bring /{entry.path}")
            entries[entry.path] = entry
    folders = {match[1] for path in entries if (match := _LIBRARY.fullmatch(path))}
    if not folders:
        raise BuildFailed("the EFA installer's packages have no library below /opt/amazon", where=installer.file)
    ordered = sorted(folders, key=lambda folder: (not folder.startswith("opt/amazon/efa/"), folder))
    loader = "".join(f"/{folder}\n" for folder in ordered)
    bill = {
        "installer": {
            "version": installer.version,
            "file": installer.file,
            "sha256": installer.sha256,
            "stand_in": _stand_in(selection),
        },
        "taken": [package.as_json() for package in found if package.choice.taken],
        "left_out": [package.as_json() for package in found if not package.choice.taken],
    }
    return [
        *entries.values(),
        file_entry(LOADER, loader.encode(), origin="fabric"),
        file_entry(BILL, (json.dumps(bill, indent=1, sort_keys=True) + "\n").encode(), origin="fabric"),
    ]


def _files(tar: TarReader, spool: Spool, name: str) -> list[Entry]:
    """A package's files as the image has them: owned by root, at their place in a merged /usr, without node's files."""
    everything = [replace(entry, path=_merged(entry.path)) for entry in read_members(tar, spool, name)]
    everything = [
        replace(entry, target=_merged(entry.target)) if entry.kind == "hardlink" else entry for entry in everything
    ]
    kept = [entry for entry in everything if entry.kind != "directory" and not _USELESS.fullmatch(entry.path)]
    return [_plain(entry) for entry in relink(kept, everything)]


def _merged(path: str) -> str:
    return f"usr/{path}" if _MERGED.match(path) else path


def _plain(entry: Entry) -> Entry:
    mode = 0o777 if entry.kind == "symlink" else 0o755 if entry.mode & 0o100 else 0o644
    return replace(entry, mode=mode, uid=0, gid=0, xattrs={})


def _of(lock: Lock) -> EfaInstaller:
    if not lock.installers:
        raise BuildFailed("the lock has no EFA installer", remedy="python3 build.py lock")
    return lock.installers[0]


def _stand_in(selection: Selection) -> str:
    return selection.installer.stand_in if selection.installer is not None else ""
