"""What checks look at: files below a root, the environment, and a few things that only functions can tell.

Everything is injectable, so that a test can show a check any node there is.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from serve_app.doctor import loaded
from serve_app.doctor.loaded import Loaded

STA_UNSYNC = 0x0040
COMMAND_S = 20.0


@dataclass(frozen=True)
class Ran:
    """A command's exit code (127: there is no such command) and what it said."""

    code: int
    out: str


def run(command: Sequence[str]) -> Ran:
    """Never raises."""
    try:
        done = subprocess.run(list(command), capture_output=True, timeout=COMMAND_S, check=False)
    except FileNotFoundError:
        return Ran(127, f"there is no {command[0]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Ran(126, str(error))
    return Ran(done.returncode, (done.stdout + done.stderr).decode(errors="replace"))


def package(name: str) -> str:
    """Version of an installed distribution, "" for none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def torch_version_file() -> str:
    """Text of torch/version.py, found without importing torch (seconds)."""
    spec = importlib.util.find_spec("torch")
    file = Path(spec.origin).with_name("version.py") if spec and spec.origin else None
    return file.read_text() if file and file.exists() else ""


def can_open(path: Path) -> str:
    """Why a device file can't be opened for reading and writing; "" when it can."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def synchronised() -> bool:
    """Whether the kernel says that its clock is kept by something (adjtimex(2)); true where it can't be asked."""
    buffer = ctypes.create_string_buffer(256)  # struct timex, of which status is the field at byte 40 on 64 bits
    if ctypes.CDLL(None).adjtimex(buffer) < 0:
        return True
    return not int.from_bytes(buffer.raw[40:44], "little") & STA_UNSYNC


def writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the nearest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def space(folder: Path) -> tuple[int, int]:
    """(total, free) bytes of the file system of a folder, or of its nearest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    return usage.total, usage.free


@dataclass(frozen=True)
class Node:
    """root: where /proc, /sys and /dev are looked for. config: the checked Serve document of --config, if given."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    config: Mapping[str, object] = field(default_factory=dict)
    run: Callable[[Sequence[str]], Ran] = run
    package: Callable[[str], str] = package
    torch_file: Callable[[], str] = torch_version_file
    can_open: Callable[[Path], str] = can_open
    synchronised: Callable[[], bool] = synchronised
    now: Callable[[], float] = time.time
    writable: Callable[[Path], bool] = writable
    space: Callable[[Path], tuple[int, int]] = space
    load: Callable[[], Mapping[str, Loaded]] = loaded.load

    @cached_property
    def loaded(self) -> Mapping[str, Loaded]:
        """What a process of each of NIXL's backends has in it. Takes seconds, once."""
        return self.load()

    def text(self, path: str) -> str:
        """A file's text, "" where it can't be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace")
        except OSError:
            return ""

    def glob(self, pattern: str) -> list[Path]:
        """Paths below the root, sorted."""
        return sorted(self.root.glob(pattern.lstrip("/")))

    def field(self, path: str, name: str) -> str:
        """Value of `Name: value` in a file of /proc; "" where it is not there."""
        match = re.search(rf"^{re.escape(name)}:?\s+(.*?)\s*$", self.text(path), re.MULTILINE)
        return match[1] if match else ""

    @cached_property
    def gpus(self) -> int:
        """How many NVIDIA GPUs this container has device files of."""
        return len([path for path in self.glob("dev/nvidia*") if path.name[6:].isdigit()])

    @cached_property
    def uses_gpu(self) -> bool:
        """Whether the installed torch is made for one, and one is there."""
        return self.gpus > 0 and not self.package("torch").endswith("+cpu")

    @cached_property
    def efa(self) -> list[str]:
        """Verbs devices of EFA's driver, as the kernel shows them (uverbs0, …): all of the node's, in a pod, too."""
        found = []
        for device in self.glob("sys/class/infiniband_verbs/uverbs*"):
            driver = device / "device" / "driver"
            if driver.exists() and driver.resolve().name == "efa":
                found.append(device.name)
        return found

    @cached_property
    def kernel(self) -> tuple[int, int]:
        """Linux's version, (0, 0) when it is not known."""
        match = re.match(r"(\d+)\.(\d+)", self.text("proc/sys/kernel/osrelease"))
        return (int(match[1]), int(match[2])) if match else (0, 0)
