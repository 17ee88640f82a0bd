"""The image's own Python, run on this machine: unpacked from the locked .debs, through its own dynamic loader.

Byte-code must come from the interpreter that will read it, and the driver's may be another. No root, no container:

    ld-linux-x86-64.so.2 --library-path <its libraries> python3.11 -s -S -B -P -c <program>

    <root>/python/<key>/     usr/bin/python3.11, usr/lib/python3.11, libraries; appears whole or not at all
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slipway.debian.deb import unpack
from slipway.errors import MissingError, UsageError
from slipway.layers.key import layer_key
from slipway.lock.model import Artifact, Deb

_MACHINES = {"amd64": ("x86_64", "ld-linux-x86-64.so.2"), "arm64": ("aarch64", "ld-linux-aarch64.so.1")}


class DebStore(Protocol):
    """What is needed of slipway.store.Store."""

    def checked(self, artifact: Artifact) -> Path: ...


def python_debs(debs: Iterable[Deb], python: str) -> tuple[Deb, ...]:
    """Those of the image's packages that its Python consists of. Raises UsageError when one is missing."""
    needed = {
        f"python{python}-minimal",
        f"libpython{python}-minimal",
        f"libpython{python}-stdlib",
        *("libc6", "zlib1g", "libexpat1"),
    }
    found = tuple(sorted((deb for deb in debs if deb.name in needed), key=lambda deb: deb.name))
    if absent := needed - {deb.name for deb in found}:
        raise UsageError(
            f"the lock lacks {', '.join(sorted(absent))}",
            why=f"byte-code is compiled with the image's own Python {python}",
            remedy="name python3 in versions.toml's packages of the image, then python3 build.py lock",
        )
    return found


@dataclass(frozen=True)
class ImagePython:
    """An unpacked Python. root: its folder; version: "3.11"; arch: Debian's name of its machine."""

    root: Path
    version: str
    arch: str

    def argv(self, program: str) -> list[str]:
        """The command that runs `program` (source text) isolated from this machine's Python, site and user."""
        machine, loader = _MACHINES[self.arch]
        triplet = f"{machine}-linux-gnu"
        libraries = [self.root / part / triplet for part in ("lib", "usr/lib")]
        return [
            *_emulator(machine),
            str(_first(self.root / part / triplet / loader for part in ("lib", "usr/lib"))),
            "--library-path",
            ":".join(map(str, libraries)),
            str(self.root / f"usr/bin/python{self.version}"),
            *("-s", "-S", "-B", "-P", "-W", "ignore", "-X", "utf8", "-c", program),
        ]

    def environment(self) -> dict[str, str]:
        """All of its environment."""
        return {"PYTHONHOME": str(self.root / "usr"), "PYTHONHASHSEED": "0"}


def python_folder(debs: Iterable[Deb]) -> str:
    """The name of the folder below <root>/python that these packages are unpacked into."""
    return layer_key("python", {"debs": [deb.sha256 for deb in debs]})[:16]


def image_python(debs: tuple[Deb, ...], version: str, store: DebStore, cache_root: Path) -> ImagePython:
    """Unpack the image's Python, once; several processes may ask at a time.

    Raises MissingError or WrongArtifact (from the store), MissingError where another machine's code can't be run.
    """
    arch = next(deb.arch for deb in debs if deb.name == "libc6")
    root = cache_root / "python" / python_folder(debs)
    if not root.is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{root.name}.", suffix=".part", dir=root.parent))
        try:
            folder.chmod(0o755)
            for deb in debs:
                unpack(store.checked(deb), folder, _is_needed)
            with contextlib.suppress(OSError):  # another process was faster; its result is as good
                folder.rename(root)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return ImagePython(root, version, arch)


def _is_needed(path: str) -> bool:
    return path.startswith(("lib/", "lib64/", "usr/lib/", "usr/bin/")) and "/gconv/" not in path


def _first(candidates: Iterable[Path]) -> Path:
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise MissingError("the image's libc6 has no dynamic loader where it should be")


def _emulator(machine: str) -> list[str]:
    """Nothing on the image's own kind of machine, else qemu's user emulator."""
    if platform.machine() == machine:
        return []
    for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
        if (found := shutil.which(name, path=os.environ.get("PATH"))) is not None:
            return [found]
    raise MissingError(
        f"this {platform.machine()} machine can't run the image's Python, which is for {machine}",
        why="byte-code is compiled with it",
        remedy="apt-get install qemu-user-static",
    )
