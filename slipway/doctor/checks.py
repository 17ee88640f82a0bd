"""All checks, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.doctor import engine, memory, python, rights, sandbox, space, tools
from slipway.doctor.model import Check, Finding, Machine

ALL: tuple[Check, ...] = (
    python.check,
    tools.check,
    rights.check,
    sandbox.check,
    space.check,
    memory.check,
    engine.check,
)


def examine(machine: Machine) -> Iterator[Finding]:
    """Run every check. One that breaks is a finding, not the end of the examination."""
    for check in ALL:
        try:
            yield from check(machine)
        except Exception as error:  # noqa: BLE001 - whatever is odd about this machine belongs in the report
            name = check.__module__.rpartition(".")[2]
            yield Finding(name, "warning", f"this check itself failed: {type(error).__name__}: {error}")
