"""Makes STAND-INS of the EFA installer's tarball: the same layout, none of Amazon's software.

The layout (folders by system and machine, rdma-core/ and efa-driver/ below, names of packages) is that of the real one,
as scripts that walk it show. What is inside comes from the tests, or from Debian's packages.
"""

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.unit.debian.debs import ar, pack, tar

WHY = "made by Slipway's tests; nothing of Amazon's is in it"


def package(
    name: str,
    files: Mapping[str, bytes | tarfile.TarInfo],
    scripts: Mapping[str, str] | None = None,
    *,
    version: str = "1.0-1",
    arch: str = "amd64",
) -> bytes:
    """A .deb with maintainer scripts."""
    control = {"./control": f"Package: {name}\nVersion: {version}\nArchitecture: {arch}\n".encode()}
    control |= {f"./{script}": text.encode() for script, text in (scripts or {}).items()}
    return ar(
        [
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", pack(tar(control), ".gz")),
            ("data.tar.xz", pack(tar(files), ".xz")),
        ]
    )


def tarball(
    path: Path,
    debs: Mapping[str, bytes],
    *,
    system: str = "DEBIAN12",
    machines: Sequence[str] = ("x86_64",),
    stand_in: str = WHY,
) -> Path:
    """aws-efa-installer/DEBS/<system>/<machine>/<name in debs>; `stand_in` says that it is none of Amazon's."""
    with tarfile.open(path, "w:gz") as archive:

        def add(name: str, content: bytes) -> None:
            info = tarfile.TarInfo(f"aws-efa-installer/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))

        add("efa_installer.sh", b"#!/bin/bash\nexit 1  # never run\n")
        if stand_in:
            add("STAND-IN", stand_in.encode())
        for machine in machines:
            for name, content in debs.items():
                add(f"DEBS/{system}/{machine}/{name}", content)
        add("DEBS/UBUNTU2204/x86_64/libfabric1-aws_9_amd64.deb", b"another system's: never read")
    return path
