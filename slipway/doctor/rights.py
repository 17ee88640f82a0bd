"""Whether this user may make a Debian tree: as root, or in a user namespace with subordinate IDs."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from pathlib import Path

from slipway.doctor.model import Finding, Machine
from slipway.host import process

NEEDED_IDS = 65536
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def check(_machine: Machine) -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("rights", "ok", "you are root: the Debian layer is made in root mode")
        return
    user = getpass.getuser()
    for name in ("subuid", "subgid"):
        if subordinate(Path("/etc", name), user) < NEEDED_IDS:
            what = f"{user} has fewer than {NEEDED_IDS} subordinate IDs in /etc/{name}"
            remedy = f"sudo usermod --add-sub{name[3:]}s 100000-165535 {user}"
            yield Finding("rights", "error", what, remedy)
    if process.run(["unshare", "--user", "--map-root-user", "true"], check=False).code != 0:
        restricted = APPARMOR.exists() and APPARMOR.read_text().strip() == "1"
        setting = f"kernel.{APPARMOR.name}=0" if restricted else "kernel.unprivileged_userns_clone=1"
        what = "this user may not make user namespaces: the Debian layer can't be made"
        yield Finding("rights", "error", what, f"sudo sysctl -w {setting}; or run as root")
        return
    yield Finding("rights", "ok", "user namespaces work: the Debian layer is made in unshare mode")


def subordinate(path: Path, user: str) -> int:
    """How many IDs /etc/subuid or /etc/subgid gives `user`; the format is subuid(5)."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    names = {user, str(os.getuid())}
    rows = [line.split(":") for line in lines]
    return sum(int(row[2]) for row in rows if len(row) == 3 and row[0] in names and row[2].isdigit())
