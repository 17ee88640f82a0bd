"""The verdict on NIXL, lied to with real transfers: what is wrong must be called wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipway.testing.nixl_proof import complaints
from tests.gpu.harness.fixtures import PORTS, Pair

PATCHED = """
import sys
from serve_app.kvbench import agent, initiator
honest = agent.Agent.transfer

def nothing(self, op, local, remote, peer):
    return 1e-3

def half(self, op, local, remote, peer):
    kind = self.memory.kind
    few = [self._agent.get_xfer_descs([all_of[n] for n in range(all_of.descCount() // 2)], kind)
           for all_of in (local, remote)]
    return honest(self, op, *few, peer)

def wrong(self, op, local, remote, peer):
    seconds = honest(self, op, local, remote, peer)
    self.memory._array[12345] ^= 1
    return seconds

lie = {"nothing": nothing, "half": half, "wrong": wrong}.get(sys.argv.pop(1), honest)
agent.Agent.transfer = lie
raise SystemExit(initiator.main())
"""
PLAN = {"backend": "LIBFABRIC", "memory": "DRAM", "ops": ["READ"], "sizes": [1 << 20], "descriptors": [64],
        "seconds": 0.0, "least": 2, "ucx_tls": "", "devices": [0, 0]}  # fmt: skip


def measure(pair: Pair, lie: str, same_node: bool = False, backend: str = "LIBFABRIC") -> dict[str, Any]:
    """One case, between the nodes or within one, with an initiator that lies; as kvbench would report it."""
    port = next(PORTS)
    log = f"/tmp/kvbench-{port}.log"
    initiator = pair.a if same_node else pair.b
    log_file = f"/tmp/ucx-{port}.log"
    env = {"NIXL_LOG_LEVEL": "INFO", "UCX_PROTO_INFO": "y", "UCX_LOG_FILE": log_file}
    with pair.a.running("serve_app", "kvbench", "--listen", f"0.0.0.0:{port}", log=log) as pid:
        pair.a.wait_for("listening", log, 300, pid)
        # The program comes as an argument: standard input is the plan's.
        words = ["python", "-c", PATCHED, lie, pair.a.address, str(port)]
        done = initiator.run(*words, env=env, data=json.dumps({**PLAN, "backend": backend}).encode(), timeout=300)
        text = done.err + initiator.run("cat", log_file, check=False).out
    [result] = [json.loads(line) for line in done.out.splitlines()]
    code = """
import dataclasses, json, sys
from serve_app.kvbench import run
from serve_app.kvbench.plan import Plan
plan, result, log = json.load(sys.stdin)
print(json.dumps(dataclasses.asdict(run._row(Plan.of(plan), result, log))))
"""
    data = json.dumps([{**PLAN, "backend": backend}, result, text]).encode()
    row = json.loads(pair.a.run("python", "-c", code, data=data).out)
    return {"rows": [row], "failed": {}}


def judge(report: dict[str, Any], fabric: str = "tcp", backend: str = "LIBFABRIC") -> list[str]:
    return complaints(report, backend, fabric, ("READ",), (64,), between=True)


@pytest.fixture(autouse=True)
def _over_tcp(pair: Pair) -> None:
    if pair.fabric != "tcp":
        pytest.skip("not run: the lies are told over tcp")


def test_without_a_lie_there_is_no_complaint(pair: Pair) -> None:
    assert judge(measure(pair, "none")) == []


@pytest.mark.parametrize(
    ("lie", "says"),
    [("nothing", "not what was sent"), ("nothing", "no network counter"), ("half", "not what was sent"),
     ("half", "no network counter"), ("wrong", "not what was sent")],
)  # fmt: skip
def test_a_transfer_that_did_not_happen_as_told(pair: Pair, lie: str, says: str) -> None:
    found = judge(measure(pair, lie))
    assert any(says in complaint for complaint in found), found


def test_tcp_instead_of_the_fabric_that_was_asked_for(pair: Pair) -> None:
    found = judge(measure(pair, "none"), "efa")
    assert any("efa was asked for" in complaint for complaint in found), found
    assert any("EFA's counters did not move" in complaint for complaint in found), found


def test_two_processes_of_one_node_are_not_two_nodes(pair: Pair) -> None:
    found = judge(measure(pair, "none", same_node=True, backend="UCX"), backend="UCX")
    assert any("within one node" in complaint for complaint in found), found
