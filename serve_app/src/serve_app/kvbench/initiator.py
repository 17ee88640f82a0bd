"""The side that reads and writes: `python -m serve_app.kvbench.initiator HOST PORT`, a plan as JSON on standard input.

Prints one JSON object a case. A process of its own for each backend, whose libraries' logs go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from serve_app.kvbench import channel as channels
from serve_app.kvbench import pattern, wire
from serve_app.kvbench.agent import Agent
from serve_app.kvbench.channel import Channel
from serve_app.kvbench.memory import Memory
from serve_app.kvbench.plan import Case, Plan

MOST = 200
"""Transfers of a case."""


def run(channel: Channel, plan: Plan, tell: Callable[[dict[str, Any]], None]) -> None:
    """Measure every case and tell of each when it is done."""
    there = channel.ask(do="plan", plan=plan.as_json())
    memory = Memory(plan.memory, max(plan.sizes), plan.devices[0])
    agent = Agent("initiator", plan.backend, memory)
    peer = agent.meet(bytes.fromhex(there["metadata"]))
    for number, case in enumerate(plan.cases(), 1):
        tell(measure(channel, plan, case, number, agent, peer, there))


def measure(
    channel: Channel, plan: Plan, case: Case, seed: int, agent: Agent, peer: str, there: dict[str, Any]
) -> dict[str, Any]:
    """One case: prepare both sides, transfer, compare digests."""
    message = {"op": case.op, "size": case.size, "descriptors": case.descriptors, "seed": seed}
    memory = agent.memory
    memory.fill(case.size, None if case.op == "READ" else seed)
    channel.ask(do="prepare", **message)
    here, far = pattern.places(case, seed)
    local = agent.descriptors(memory.address, here, case.piece, memory.device)
    remote = agent.descriptors(int(there["address"]), far, case.piece, int(there["device"]))
    agent.transfer(case.op, local, remote, peer)  # the first one makes the connection
    took: list[float] = []
    before, began = wire.read(), time.perf_counter()
    while len(took) < plan.least or (time.perf_counter() - began < plan.seconds and len(took) < MOST):
        took.append(agent.transfer(case.op, local, remote, peer))
    moved = wire.read().since(before).of(case.op)
    mine = memory.digest(here, case.piece)
    theirs = channel.ask(do="digest", **message)["digest"]
    return {
        "op": case.op, "size": case.size, "descriptors": case.descriptors, "seconds": took, "verified": mine == theirs,
        "payload": case.size * len(took), "moved": {name: count for name, count in moved.items() if count},
    }  # fmt: skip


def main() -> int:
    """Runs one plan."""
    rows = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no result
    plan = Plan.of(json.load(sys.stdin))

    def tell(row: dict[str, Any]) -> None:
        rows.write(json.dumps(row) + "\n")
        rows.flush()

    try:
        run(channels.connect(sys.argv[1], int(sys.argv[2])), plan, tell)
    except Exception as error:  # noqa: BLE001 - all of it belongs in the report
        tell({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
