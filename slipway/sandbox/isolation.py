"""Which namespaces a job can have on this machine, and the command that gives them to it.

util-linux makes them (unshare(1), setpriv(1)), so that no set-uid helper of ours is needed:

    setpriv --pdeathsig KILL  unshare --mount --pid --fork --kill-child --net --uts --ipc [--user …]  PROGRAM …

The program is the first process of its own process namespace, and every link of the chain dies with the one before
it: when the driver is killed, even by SIGKILL, the kernel ends all that was started and undoes all that was mounted.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from slipway.errors import MissingError
from slipway.host import process

Kind = Literal["root", "owners", "single", "none"]

_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--net", "--uts", "--ipc")
_USERS: dict[Kind, tuple[str, ...]] = {
    "root": (),
    "owners": ("--user", "--map-root-user", "--map-auto"),
    "single": ("--user", "--map-root-user"),
}
SUBUIDS = 65_536
"""How many user ids a Debian tree needs: 0 to 65535, because `nobody` is 65534."""


@dataclass(frozen=True)
class Isolation:
    """What a job is fenced in with.

    root:   namespaces made by root; users are the machine's own
    owners: namespaces of a user who has subordinate ids: files may belong to 65536 users
    single: namespaces of a user: all files belong to "root", who is that user
    none:   no namespaces: the job sees the machine's network and mounts
    """

    kind: Kind

    @property
    def strong(self) -> bool:
        """Whether the network is off and mounts are the job's own."""
        return self.kind != "none"

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` within."""
        fence = (*_UNSHARE, *_USERS[self.kind], "--") if self.strong else ("--",)
        return [*_DIES_WITH_US, *fence, *argv]


def for_owners() -> Isolation:
    """The isolation for making a tree whose files belong to several users.

    Root without the right to make namespaces gets "none". Raises MissingError for a user who can't have "owners".
    """
    if os.geteuid() == 0:
        return Isolation("root") if works("root") else Isolation("none")
    if works("owners"):
        return Isolation("owners")
    raise MissingError(
        "this user can't make a Debian tree: its files belong to several users",
        why=_why_no_owners(),
        remedy=_remedy_owners(),
    )


def for_compiling() -> Isolation:
    """The isolation for compiling: never "none". Raises MissingError where namespaces can't be had."""
    kinds: tuple[Kind, ...] = ("root",) if os.geteuid() == 0 else ("single", "owners")
    for kind in kinds:
        if works(kind):
            return Isolation(kind)
    raise MissingError(
        "the network can't be taken away from what is compiled: this machine gives no namespaces",
        why="what a build may download, it does not build from its pins",
        remedy="run on a machine or in a container that may make namespaces "
        + ("(CAP_SYS_ADMIN, e.g. docker run --privileged)" if os.geteuid() == 0 else "(root, or unprivileged ones)")
        + ", use the layer cache of one, or accept it with --sandbox=weak",
    )


def without_namespaces(missing: MissingError) -> Isolation:
    """The weak isolation that a user asked for: another root folder. Raises MissingError for all but root."""
    if os.geteuid() == 0:
        return Isolation("none")
    raise MissingError(
        "even a weak sandbox can't be had: only root may change the root folder without namespaces",
        why=missing.what,
        remedy="run as root, or " + (missing.remedy or "on another machine"),
    ) from missing


@cache
def works(kind: Kind) -> bool:
    """Whether namespaces of this kind can be made here, by making them."""
    probe = ["sh", "-c", "mount -t tmpfs none /sys && exec true"]
    try:
        done = subprocess.run(
            Isolation(kind).wrap(probe),
            env=process.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    except FileNotFoundError as problem:
        raise process.missing(str(problem.filename)) from problem
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def subordinate_ids(table: str, user: str, uid: int) -> int:
    """The largest range that a table in the form of /etc/subuid gives this user (subuid(5))."""
    ranges = [line.split(":") for line in table.splitlines()]
    counts = [int(r[2]) for r in ranges if len(r) == 3 and r[0] in (user, str(uid)) and r[2].strip().isdigit()]
    return max(counts, default=0)


def _lacks_ids() -> bool:
    def count(path: str) -> int:
        try:
            return subordinate_ids(Path(path).read_text(), _user(), os.geteuid())
        except OSError:
            return 0

    return min(count("/etc/subuid"), count("/etc/subgid")) < SUBUIDS - 1


def _why_no_owners() -> str:
    if process.which("newuidmap") is None:
        return "newuidmap is not installed"
    if _lacks_ids():
        return f"{_user()} has no {SUBUIDS} subordinate user and group ids (/etc/subuid, /etc/subgid)"
    return "the kernel or its security policy refused a user namespace"


def _remedy_owners() -> str:
    if process.which("newuidmap") is None:
        return "apt-get install uidmap, or run as root"
    if _lacks_ids():
        user = _user()
        return (
            f"sudo usermod --add-subuids 100000-{99_999 + SUBUIDS} --add-subgids 100000-{99_999 + SUBUIDS} {user} "
            "(choose another range if that one is taken), or run as root"
        )
    return (
        "run as root; or allow user namespaces: kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, and on "
        "Ubuntu 24.04 kernel.apparmor_restrict_unprivileged_userns=0 (sysctl)"
    )
