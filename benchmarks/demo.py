#!/usr/bin/env python3
"""From `docker run` to the first answer of the image's demo, split by phase.

    python3 benchmarks/demo.py [--image slipway:2.60-cpu] [--layout out/2.60-cpu-amd64] [--repeat 3] [--json FILE]

Loads the layout into an engine of its own (or one that runs), starts the demo without a network, reads the phases that
serve_app prints, and asks for a chat completion. The best of the runs is shown, and all of them are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway.cli.bytecode import ASK  # noqa: E402
from slipway.cli.common import cache_home  # noqa: E402
from slipway.engine import session  # noqa: E402
from slipway.engine.model import Engine  # noqa: E402
from slipway.load.load import load  # noqa: E402
from slipway.progress import open_progress  # noqa: E402

LIMIT = 600.0
"""Seconds after which a demo that has not answered counts as failed."""


def start(engine: Engine, image: str) -> list[tuple[str, float]]:
    """One demo: (phase, seconds since `docker run`), the last one being the first chat completion's end."""
    begin = time.monotonic()
    options = ["run", "--detach", "--network", "none", "--shm-size", "1g"]
    name = engine.docker(*options, image, "serve_app", "serve", "--demo", "--log-format", "json").out.strip()
    phases = [("docker run returned", time.monotonic() - begin)]
    seen: set[str] = set()
    try:
        while "ready" not in seen:
            if time.monotonic() - begin > LIMIT:
                raise SystemExit("the demo did not answer:\n" + engine.docker("logs", name, check=False).err[-3000:])
            said = engine.docker("logs", name, check=False)
            for line in (said.out + said.err).splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                phase = event.get("event") if isinstance(event, dict) else None
                if isinstance(phase, str) and phase != "log" and phase not in seen:
                    seen.add(phase)
                    phases.append((f"serve_app: {phase}", time.monotonic() - begin))
            time.sleep(0.2)
        engine.docker("exec", name, "python", "-c", ASK)
        phases.append(("chat completion answered", time.monotonic() - begin))
    finally:
        engine.docker("rm", "--force", "--volumes", name, check=False)
    return phases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="slipway:2.60-cpu")
    parser.add_argument("--layout", type=Path, default=ROOT / "out" / "2.60-cpu-amd64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    before = os.getloadavg()[0]
    with open_progress() as progress, session.available(cache_home() / "engine") as engine:
        load(args.layout, engine, args.image, progress)
        runs = [start(engine, args.image) for _ in range(args.repeat)]
    best = min(runs, key=lambda run: run[-1][1])
    print(f"{datetime.date.today()}, {os.cpu_count()} cores, load {before:.1f} before, best of {len(runs)}\n")
    print("| phase | seconds since `docker run` |\n|---|---|")
    for phase, seconds in best:
        print(f"| {phase} | {seconds:.1f} |")
    if args.json:
        args.json.write_text(
            json.dumps({"date": str(datetime.date.today()), "load": before, "runs": runs}, indent=2) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
