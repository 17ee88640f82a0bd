"""`serve_app kvbench`: NIXL's transfers timed and verified, here or between two nodes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from serve_app.errors import EXIT_FAILED, UsageError
from serve_app.kvbench import plan as plans

HELP = "time NIXL's transfers between two processes or nodes, verify them, and name the transport that carried them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, what, and in which form."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--listen", metavar="[HOST:]PORT", help="be the other side, until --connect is through")
    where.add_argument("--connect", metavar="HOST:PORT", help="measure against a node that listens (default: two "
                       "processes here)")  # fmt: skip
    parser.add_argument("--backends", default="UCX,LIBFABRIC", metavar="A,B", help="default: %(default)s")
    parser.add_argument("--ops", default="READ,WRITE", metavar="A,B", help="default: %(default)s; vLLM's decode READs")
    parser.add_argument("--sizes", default="64K,1M,16M,64M", metavar="A,B", help="default: %(default)s")
    parser.add_argument("--descriptors", default="1,64,4096", metavar="A,B",
                        help="pieces of a transfer (default: %(default)s); one KV block is one or more")  # fmt: skip
    parser.add_argument("--memory", choices=plans.MEMORY, default="DRAM", help="default: %(default)s")
    parser.add_argument("--devices", default="0,0", metavar="HERE,THERE", help="GPUs for VRAM (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case at least (default: %(default)s)")
    parser.add_argument("--ucx-tls", default="", metavar="TLS", help="UCX_TLS for both sides, e.g. tcp")
    parser.add_argument("--no-raw", action="store_true", help="without fi_rma_bw and iperf3")
    parser.add_argument("--json", metavar="FILE", help="also write JSON there; - for stdout instead of the table")
    parser.add_argument("--png", metavar="FILE", type=Path, help="also draw a picture")


def run(args: argparse.Namespace) -> int:
    """0: measured and right. 1: a backend failed, contents were wrong, or the counters contradict."""
    from serve_app.kvbench import picture, raw
    from serve_app.kvbench import run as runs
    from serve_app.kvbench.channel import split
    from serve_app.kvbench.server import Server

    if args.listen:
        server = Server(*split(args.listen))
        say(f"listening on port {server.port}")
        server.run(say)
        return 0
    wanted = read_plans(args)
    tools = () if args.no_raw else raw.TOOLS
    if args.connect:
        host, port = split(args.connect, "127.0.0.1")
        report = runs.run(host, port, wanted, tools, say)
        runs.end(host, port)
    else:
        with runs.local_server() as (host, port):
            report = runs.run(host, port, wanted, tools, say)
    text = json.dumps(report.as_json(), indent=2)
    print(text if args.json == "-" else report.table())
    if args.json not in (None, "-"):
        Path(args.json).write_text(text + "\n")
    if args.png:
        picture.write(report, args.png)
    return 0 if report.right else EXIT_FAILED


def read_plans(args: argparse.Namespace) -> list[plans.Plan]:
    """One plan a backend. Raises UsageError."""
    try:
        sizes = tuple(plans.size(text) for text in args.sizes.split(","))
        common: dict[str, Any] = {
            "memory": args.memory,
            "ops": tuple(args.ops.split(",")),
            "sizes": sizes,
            "descriptors": tuple(int(text) for text in args.descriptors.split(",")),
            "seconds": args.seconds,
            "ucx_tls": args.ucx_tls,
            "devices": tuple(int(text) for text in args.devices.split(",")),
        }
    except ValueError as error:
        raise UsageError(str(error)) from error
    if set(common["ops"]) - set(plans.OPS) or min(common["descriptors"]) < 1 or len(common["devices"]) != 2:
        raise UsageError("--ops are READ and WRITE, --descriptors numbers from 1, --devices two numbers")
    made = [plans.Plan.of({"backend": name, "least": 3, **common}) for name in args.backends.split(",")]
    if not all(list(plan.cases()) for plan in made):
        raise UsageError("no size can be cut into that many pieces of 64 bytes or more")
    return made


def say(text: str) -> None:
    """Progress."""
    print(f"kvbench: {text}", file=sys.stderr, flush=True)
