"""What this machine must have before a job starts: programs, and a processor that runs the image's."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from slipway.errors import MissingError
from slipway.host.apt import is_there
from slipway.host.packages import Tool

_DEBIAN_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_QEMU = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}
_BINFMT = Path("/proc/sys/fs/binfmt_misc")


def require(tools: Sequence[Tool], arch: str) -> None:
    """Raise MissingError, naming all that is missing, when a job with these tools for `arch` can't run here."""
    lacking = [tool for tool in tools if not is_there(tool)]
    if lacking:
        packages = sorted({tool.package for tool in lacking})
        raise MissingError(
            f"this machine lacks {', '.join(tool.name for tool in lacking)}",
            why=lacking[0].why,
            remedy=f"apt-get install {' '.join(packages)}",
        )
    machine = _DEBIAN_ARCH.get(platform.machine(), platform.machine())
    if machine != arch and not (_BINFMT / _QEMU.get(arch, arch)).exists():
        raise MissingError(
            f"this machine's processor ({machine}) does not run programs for {arch}",
            why="Debian's packages are configured, and libfabric is compiled, by programs of the image's architecture",
            remedy=f"build on {arch}, or apt-get install qemu-user-static",
        )
