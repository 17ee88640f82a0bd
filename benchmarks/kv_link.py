#!/usr/bin/env python3
"""NIXL's LIBFABRIC against libfabric itself, over tcp between two containers of one machine, 64 MiB at a time.

    python3 benchmarks/kv_link.py [--image slipway:2.60-cpu] [--layout out/2.60-cpu-amd64] [--runs 5] [--json FILE]

A: `fi_rma_bw -o read`, B: `serve_app kvbench` (READ), in turn (ABAB…), same containers, provider and size; medians are
compared. fi_rma_bw reads both ways at once and says the rate of one way; that is what it is made for, and is taken as
it is. Its default has 64 reads under way, `-W 1` has one, as NIXL has here: both are measured, and the better counts.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.cli.common import cache_home  # noqa: E402
from slipway.engine import session  # noqa: E402
from slipway.engine.model import Engine  # noqa: E402
from slipway.load.load import load  # noqa: E402
from slipway.progress import open_progress  # noqa: E402

SIZE = 64 << 20
BAR = 0.8
WINDOWS = ("default", "1")


def raw(engine: Engine, server: str, client: str, address: str, window: str, port: int) -> float:
    """GB/s of fi_rma_bw."""
    words = ["fi_rma_bw", "-p", "tcp", "-o", "read", "-S", str(SIZE), "-I", "20"]
    words += [] if window == "default" else ["-W", window]
    engine.docker("exec", "-d", server, *words, "-B", str(port), "-s", address)
    for _ in range(60):
        done = engine.docker("exec", client, *words, "-P", str(port), address, check=False, timeout=300)
        if done.code == 0:
            return float(done.out.splitlines()[-1].split()[4]) / 1e3
        time.sleep(0.5)
    raise SystemExit(f"fi_rma_bw fails: {done.out}{done.err}")


def nixl(engine: Engine, server: str, client: str, address: str, port: int) -> float:
    """GB/s of NIXL's LIBFABRIC; ends the program unless contents and transport are right."""
    engine.docker("exec", "-d", server, "serve_app", "kvbench", "--listen", f"0.0.0.0:{port}")
    options = ["--backends", "LIBFABRIC", "--ops", "READ", "--sizes", "64M", "--descriptors", "1", "--seconds", "2"]
    words = ["serve_app", "kvbench", "--connect", f"{address}:{port}", *options, "--no-raw", "--json", "-"]
    done = engine.docker("exec", client, *words, check=False, timeout=300)
    report = json.loads(done.out or "{}")
    if not report.get("right") or "tcp" not in report["rows"][0]["transport"]:
        raise SystemExit(f"kvbench says no: {done.out}{done.err}")
    return float(report["rows"][0]["gbps"])


@contextlib.contextmanager
def containers(engine: Engine, image: str):  # noqa: ANN201 - a generator of two names
    """Two idle ones."""
    names = [f"slipway-kv-link-{os.getpid()}-{side}" for side in "ab"]
    try:
        for name in names:
            engine.docker("run", "-d", "--name", name, "--shm-size", "1g", image, "sleep", "infinity")
        yield names
    finally:
        engine.docker("rm", "-f", "-v", *names, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="slipway:2.60-cpu")
    parser.add_argument("--layout", type=Path, default=ROOT / "out" / "2.60-cpu-amd64")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    figures: dict[str, list[float]] = {f"fi_rma_bw window {window}": [] for window in WINDOWS} | {"nixl": []}
    loads = []
    with session.available(cache_home() / "engine") as engine:
        if engine.image(args.image) is None:
            with open_progress() as progress:
                load(args.layout, engine, args.image, progress)
        with containers(engine, args.image) as (server, client):
            form = "{{.NetworkSettings.IPAddress}}"
            address = engine.docker("inspect", "-f", form, server).out.strip()
            for run in range(args.runs):
                loads.append(os.getloadavg()[0])
                for number, window in enumerate(WINDOWS):
                    rate = raw(engine, server, client, address, window, 47600 + 4 * run + number)
                    figures[f"fi_rma_bw window {window}"].append(rate)
                figures["nixl"].append(nixl(engine, server, client, address, 47700 + run))
                print({name: round(values[-1], 3) for name, values in figures.items()}, file=sys.stderr, flush=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    best = max(value for name, value in medians.items() if name != "nixl")
    result = {
        "date": datetime.date.today().isoformat(),
        "what": "READ of 64 MiB over libfabric's tcp between two containers of one machine, GB/s",
        "cores": len(os.sched_getaffinity(0)),
        "load_before_each_run": loads,
        "runs": figures,
        "medians": medians,
        "nixl_over_best_raw": medians["nixl"] / best,
        "bar": BAR,
    }
    print(json.dumps(result, indent=2))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if medians["nixl"] >= BAR * best else 1


if __name__ == "__main__":
    raise SystemExit(main())
