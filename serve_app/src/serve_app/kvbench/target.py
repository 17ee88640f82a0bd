"""The side whose memory is read or written: `python -m serve_app.kvbench.target FD`, started by the server.

FD is the connection, on which a plan has been read already; it comes on standard input.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from serve_app.kvbench import pattern
from serve_app.kvbench.agent import Agent
from serve_app.kvbench.channel import Channel
from serve_app.kvbench.memory import Memory
from serve_app.kvbench.plan import Case, Plan


def serve(channel: Channel, plan: Plan) -> None:
    """Until the other side ends. What goes wrong here is told there."""
    memory = Memory(plan.memory, max(plan.sizes), plan.devices[1])
    agent = Agent("target", plan.backend, memory)
    channel.send(metadata=agent.metadata().hex(), address=memory.address, device=memory.device)
    while (message := channel.receive()) is not None:
        channel.send(**_answer(memory, message))


def _answer(memory: Memory, message: dict[str, Any]) -> dict[str, Any]:
    case = Case(str(message["op"]), int(message["size"]), int(message["descriptors"]))
    if not 0 < case.size <= memory.size or not 0 < case.descriptors <= case.size:
        return {"error": f"{case} is not in the plan"}
    seed = int(message["seed"])
    if message["do"] == "prepare":
        memory.fill(case.size, seed if case.op == "READ" else None)
        return {"done": True}
    _, there = pattern.places(case, seed)
    return {"digest": memory.digest(there, case.piece)}


def main() -> int:
    """Serves one connection."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    try:
        serve(channel, Plan.of(json.load(sys.stdin)))
    except Exception as error:  # noqa: BLE001 - all of it is told to the other side
        channel.send(error=f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
