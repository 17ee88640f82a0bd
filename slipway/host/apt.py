"""Installs system packages with apt-get when the user is root, and says what to install when not."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from slipway.errors import MissingError
from slipway.host import process
from slipway.host.packages import Tool

LOCK = Path("/run/slipway-apt.lock")
OPTIONS = ("-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "APT_LISTCHANGES_FRONTEND": "none"}
LISTS = Path("/var/lib/apt/lists")


def is_there(tool: Tool) -> bool:
    """Whether this machine has the program or file."""
    return Path(tool.name).exists() if tool.name.startswith("/") else process.which(tool.name) is not None


def ensure(tools: Iterable[Tool]) -> None:
    """See to it that all `tools` are on the machine: installs their packages as root, saying so on stderr.

    Raises MissingError, with the command to run, when they can't be installed from here.
    """
    lacking = [tool for tool in tools if not is_there(tool)]
    if not lacking:
        return
    install(sorted({tool.package for tool in lacking}), why=lacking[0].why)
    still = [tool for tool in lacking if not is_there(tool)]
    if still:
        raise MissingError(
            f"{', '.join(tool.name for tool in still)} still missing after apt-get installed "
            f"{', '.join(sorted({tool.package for tool in still}))}",
            remedy="look at which package of this system brings it, and install that",
        )


def install(packages: Sequence[str], *, why: str) -> None:
    """Install `packages`. Raises MissingError when the user is not root, there is no apt-get, or it fails."""
    names = " ".join(packages)
    command = f"apt-get update && apt-get install -y --no-install-recommends {names}"
    if process.which("apt-get") is None:
        raise MissingError(
            f"this machine lacks {names} (Debian's package names) and has no apt-get",
            why=why,
            remedy="install the same programs with this system's package manager",
        )
    if os.geteuid() != 0:
        raise MissingError(f"this machine lacks {names}", why=why, remedy=f"run: sudo sh -c '{command}'")
    print(f"installing {names} with apt-get, as you are root ({why})", file=sys.stderr, flush=True)
    with one_at_a_time():
        known = any(LISTS.glob("*_Packages*"))
        if known and apt_get("install", *OPTIONS, *packages).code == 0:
            return
        # No package lists yet, or lists so old that the mirror has moved on.
        update = apt_get("update", "-q")
        result = apt_get("install", *OPTIONS, *packages)
    if result.code != 0:
        said = process.last_lines("\n".join((update.err, result.out, result.err)))
        raise MissingError(f"apt-get could not install {names}\n{said}", why=why, remedy=f"run: {command}")


def can_install() -> bool:
    """Whether packages can be installed from here."""
    return os.geteuid() == 0 and process.which("apt-get") is not None


def apt_get(*arguments: str) -> process.Result:
    """apt-get without questions; the caller judges the exit code."""
    return process.run(["apt-get", *arguments], env=QUIET, check=False)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two builds that install at once wait for each other: apt-get itself waits for dpkg's lock, not for its lists'."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
