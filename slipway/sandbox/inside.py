"""The first thing that runs in a job's namespaces: names the machine, mounts what the job needs, calls its function."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOST = "slipway"
_DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}


def main() -> None:
    """argv[1] is the job as JSON: entry, strong, arguments."""
    document = json.loads(sys.argv[1])
    # The first process of a namespace ignores signals that it has no handler for: a job that gets SIGTERM ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if document["strong"]:
        with contextlib.suppress(OSError):
            socket.sethostname(HOST)
        mount("-t", "proc", "proc", "/proc", check=False)
    module, _, function = document["entry"].partition(":")
    code = getattr(importlib.import_module(module), function)(strong=document["strong"], **document["arguments"])
    sys.stdout.flush()
    sys.exit(code or 0)


def mount(*arguments: str, check: bool = True) -> bool:
    """mount(8), its words to the log."""
    done = subprocess.run(["mount", *arguments], check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if check and done.returncode != 0:
        raise SystemExit(f"mount {' '.join(arguments)} failed")
    return done.returncode == 0


@contextlib.contextmanager
def room(folder: Path, memory: int, strong: bool) -> Iterator[Path]:
    """The folder to work in: a tmpfs of `memory` bytes mounted on it where that is wanted (0: not) and possible."""
    if memory and strong:
        mount("-t", "tmpfs", "-o", f"size={memory},mode=0755,nr_inodes=0", "slipway", str(folder))
    yield folder


def devices(root: Path, strong: bool) -> None:
    """The few device files that compilers and shells need. A user namespace can't make them, so they are bound."""
    folder = root / "dev"
    folder.mkdir(exist_ok=True)
    for name, (major, minor) in _DEVICES.items():
        path = folder / name
        with contextlib.suppress(FileExistsError):
            try:
                os.mknod(path, 0o666 | 0o020000, os.makedev(major, minor))
                path.chmod(0o666)
                # Where the file system forbids devices, mknod works and opening does not.
                path.open("rb").close()
                continue
            except PermissionError:
                path.unlink(missing_ok=True)
        path.touch()
        if strong:
            mount("--bind", f"/dev/{name}", str(path))
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
