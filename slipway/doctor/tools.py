"""Programs of the system that a build calls."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slipway.debian import layer as debian
from slipway.doctor.model import Finding, Machine
from slipway.fabric import layer as fabric
from slipway.host import apt
from slipway.host.packages import UNPRIVILEGED

BUILD = tuple({tool.name: tool for tool in (*debian.TOOLS, *fabric.TOOLS)}.values())


def check(_machine: Machine) -> Iterator[Finding]:
    wanted = BUILD if os.geteuid() == 0 else (*BUILD, *UNPRIVILEGED)
    lacking = [tool for tool in wanted if not apt.is_there(tool)]
    if not lacking:
        yield Finding("tools", "ok", f"all {len(wanted)} programs of the system that a build calls are here")
        return
    packages = " ".join(sorted({tool.package for tool in lacking}))
    for tool in lacking:
        what = f"{tool.name} is missing: {tool.why}"
        if apt.can_install():
            yield Finding("tools", "note", what, f"the build installs {tool.package} itself, as you are root")
        else:
            yield Finding("tools", "error", what, f"sudo apt-get install {packages}")
