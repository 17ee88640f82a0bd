"""All checks, in the order in which they run: what is quick first."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.checks import (
    clock,
    compat,
    driver,
    efa_devices,
    fork,
    gpu_direct,
    hf_cache,
    hugepages,
    interfaces,
    libraries,
    memlock,
    memory,
    nixl_plugins,
    placement,
    shared_memory,
    side_channel,
    transports,
    worker_cores,
)
from serve_app.doctor.model import Check, Finding
from serve_app.doctor.node import Node

ALL: tuple[Check, ...] = (
    driver.check,
    efa_devices.check,
    memlock.check,
    shared_memory.check,
    hugepages.check,
    memory.check,
    fork.check,
    worker_cores.check,
    side_channel.check,
    interfaces.check,
    transports.check,
    clock.check,
    hf_cache.check,
    placement.check,
    nixl_plugins.check,
    libraries.check,
    compat.check,
    gpu_direct.check,
)


def examine(node: Node) -> Iterator[Finding]:
    """Run every check. One that breaks is a finding, not the end of the examination."""
    for check in ALL:
        try:
            yield from check(node)
        except Exception as error:  # noqa: BLE001 - whatever is odd about this node belongs in the report
            name = check.__module__.rpartition(".")[2]
            yield Finding(
                name,
                "warning",
                f"this check itself failed: {type(error).__name__}: {error}",
                "tell us, with the output of serve_app doctor --json",
                "serve_app/doctor/checks",
            )
