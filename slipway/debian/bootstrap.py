"""Runs mmdebstrap over the local archive: locked packages in, a tar of the configured root file system out.

Maintainer scripts, triggers and alternatives run here and nowhere else, with the network off where the machine allows
namespaces (root without the right to make them works as well, and gives the same bytes).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from slipway.debian import repository
from slipway.sandbox.inside import room

_LIB64 = ("amd64", "ppc64el")


BUILD_CONFIG = "etc/dpkg/dpkg.cfg.d/zz-slipway-build"
"""dpkg's settings while the tree is made; not part of the image."""

_DPKG_OPTIONS = (
    "force-unsafe-io",  # no fsync: what is interrupted is thrown away
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)


def merged_links(arch: str) -> tuple[str, ...]:
    """Which folders of / are links into /usr. Debian 12 expects to find them, later suites ship them.

    Those for other word sizes (lib32, libx32) are left out: Debian's packages make them when they need them.
    """
    return ("bin", "sbin", "lib", *(["lib64"] if arch in _LIB64 else []))


def setup_script(arch: str) -> str:
    """What mmdebstrap's setup hook does in the still empty tree ($1), before packages are unpacked.

    It stands in for mmdebstrap's own merged-usr hook, which needs debootstrap's functions or a second dpkg run.
    """
    lines = ["set -e", 'cd "$1"']
    for link in merged_links(arch):
        lines += [f"mkdir -p usr/{link}", f"ln -s usr/{link} {link}"]
    lines.append(f"mkdir -p {Path(BUILD_CONFIG).parent}")
    lines += [f"echo {shlex.quote(option)} >> {BUILD_CONFIG}" for option in _DPKG_OPTIONS]
    return "; ".join(lines)


def arguments(packages: Sequence[str], archive: Path, arch: str) -> list[str]:
    """mmdebstrap's command line (mmdebstrap(1)); `packages` as name=version, the tar goes to stdout."""
    line = repository.source_line(Path(urllib.parse.quote(str(archive))))
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=custom",
        "--format=tar",
        "--verbose",
        f"--architectures={arch}",
        # apt would become the user _apt, who may not read the caller's folders.
        '--aptopt=APT::Sandbox::User "root"',
        '--aptopt=Acquire::Languages "none"',
        "--skip=check/qemu,check/signed-by",
        f"--setup-hook={setup_script(arch)}",
        f"--include={','.join(packages)}",
        repository.SUITE,
        "-",
        line,
    ]


def inside(strong: bool, argv: list[str], root: str, memory: int) -> int:
    """Runs within the job's namespaces: mmdebstrap works in `root`, a tmpfs of `memory` bytes where that is not 0."""
    with room(Path(root), memory, strong) as folder:
        environment = {**os.environ, "TMPDIR": str(folder)}
        return subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
