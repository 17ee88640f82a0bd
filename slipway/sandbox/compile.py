"""A compile job: a root file system of .debs, a script in its /build, and /build/out as a tar on stdout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.layers.tar import MTIME
from slipway.sandbox import inside as sandbox
from slipway.sandbox.unpack import unpack

BUILD = "/build"
"""The only path that compilers see of where they work: the same on every machine."""

OUT = "out"
MARK = "slipway: "
"""How a line of the log begins that says what is being done."""


def inside(
    strong: bool,
    root: str,
    memory: int,
    debs: Sequence[str],
    links: Sequence[str],
    files: Mapping[str, str],
    argv: Sequence[str],
    jobs: int,
) -> int:
    """Runs within the job's namespaces. files: path below /build → file of this machine; argv runs in /build.

    root: an empty folder; a tmpfs of `memory` bytes is mounted on it where that is not 0. Returns an exit code.
    """
    with sandbox.room(Path(root), memory, strong) as folder:
        print(f"{MARK}unpack packages", file=sys.stderr, flush=True)
        unpack(folder, [Path(deb) for deb in debs], links, jobs)
        for name in ("proc", "dev", "tmp", "root"):
            (folder / name).mkdir(exist_ok=True)
        sandbox.devices(folder, strong)
        if strong:
            sandbox.mount("-t", "proc", "proc", str(folder / "proc"), check=False)
        build = folder / BUILD.strip("/")
        for name, source in files.items():
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, build / name)
        done = subprocess.run(
            ["chroot", str(folder), *argv],
            env={**os.environ, "JOBS": str(jobs), "TMPDIR": "/tmp", "PWD": BUILD},  # noqa: S108
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            check=False,
        )
        if done.returncode == 0:
            _send(build / OUT)
        return done.returncode


def _send(folder: Path) -> None:
    """The folder's content as a tar on stdout. Order, owners and dates are the reader's affair."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = MTIME
        return member

    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name, filter=plain)
