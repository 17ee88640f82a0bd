"""`serve_app doctor`: what of this node is in the way of the KV cache."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serve_app.doctor.model import Finding
    from serve_app.doctor.node import Node

HELP = "examine this node: what stops the KV cache, slows it down, or sends it another way than asked"
EPILOG = "Exit codes: 0 fine, 1 works but slowly or at a risk, 2 will not work."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--json, --measure, --peer, --config."""
    parser.epilog = EPILOG
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--config", metavar="CONFIG.yaml", type=Path, help="also look at what this configuration allows"
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time NIXL between two processes here, or with --peer "
        "between two nodes, and name the transport that was used",
    )
    parser.add_argument(
        "--peer", metavar="HOST:PORT", help="for --measure: a node on which `serve_app kvbench --listen PORT` runs"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the findings; the exit code says how bad it is."""
    from serve_app import environment
    from serve_app.config import document
    from serve_app.doctor import checks, model
    from serve_app.doctor.node import Node

    start = time.monotonic()
    environment.prepare()
    config = document.read(args.config).data if args.config else {}
    node = Node(config=config if isinstance(config, dict) else {})
    findings = list(checks.examine(node))
    if args.measure or args.peer:
        findings += measure(node, args.peer)
    code = model.exit_code(findings)
    if args.json:
        rows = [finding.as_json() for finding in findings]
        print(json.dumps({"exit": code, "seconds": round(time.monotonic() - start, 1), "findings": rows}, indent=2))
    else:
        print(model.table(findings))
    return code


def measure(node: Node, peer: str | None) -> list[Finding]:
    """kvbench's findings, between this node and `peer`, or two processes here."""
    from serve_app.cli.kvbench import say
    from serve_app.doctor import measured
    from serve_app.kvbench import run as runs
    from serve_app.kvbench.channel import split

    plans = measured.plans(node.uses_gpu, node.gpus)
    if peer:
        host, port = split(peer, "127.0.0.1")
        found = list(measured.clocks(runs.clock(host, port)))
        report = runs.run(host, port, plans, ("fi_rma_bw",), say)
        runs.end(host, port)
        return found + list(measured.judge(report, same_gpu=False, efa=bool(node.efa)))
    with runs.local_server() as (host, port):
        report = runs.run(host, port, plans, ("fi_rma_bw",), say)
    same_gpu = node.uses_gpu and plans[0].devices[0] == plans[0].devices[1]
    return list(measured.judge(report, same_gpu, bool(node.efa)))
