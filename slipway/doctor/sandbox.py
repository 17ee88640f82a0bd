"""Whether what is compiled can be cut off from the network."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slipway.doctor.model import Finding, Machine
from slipway.host import process


def check(_machine: Machine) -> Iterator[Finding]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if process.run(["unshare", *user, "--net", "true"], check=False).code == 0:
        yield Finding("sandbox", "ok", "a network namespace can be made: libfabric is compiled without a network")
        return
    yield Finding(
        "sandbox",
        "warning",
        "no network namespace can be made here: libfabric can't be compiled without a network",
        "copy the layer cache of a machine that can, or use --sandbox=weak, which is recorded in the image",
    )
