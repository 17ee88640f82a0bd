#!/usr/bin/env python3
"""Our wheel layers against BuildKit's, from the same wheels on the same machine, in turns.

    python3 benchmarks/build.py [--variant cuda] [--rounds 3] [--compression gzip zstd] [--json FILE]

Ours: all wheel layers of the lock into an empty layer cache, byte-code outside. BuildKit's: one RUN of uv that installs
the same wheels (docker/Dockerfile without its copying between stages), exported as an OCI archive to nowhere. In both,
what is not the wheels costs nothing: the system layers are built, exported and compressed before the clock starts, and
BuildKit has the wheels in its context already. Needs a warm store, root (or an engine that runs) and, for cuda, 25 GB
of disk. Everything that BuildKit has kept is dropped after every run.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import wheel_layers  # noqa: E402

from slipway import pins  # noqa: E402
from slipway.assemble import Request, read_lock  # noqa: E402
from slipway.cli.common import cache_home  # noqa: E402
from slipway.engine import session  # noqa: E402
from slipway.engine.model import Engine  # noqa: E402
from slipway.layers.cache import LayerCache  # noqa: E402
from slipway.progress import Progress  # noqa: E402
from slipway.reference import build as reference  # noqa: E402
from slipway.store import Store  # noqa: E402
from slipway.store.fetch import FetchOptions  # noqa: E402

BARS = {"gzip": 6.5, "zstd": 4.5}
"""How many times faster than BuildKit, for the cuda variant."""

LEVEL = 3
"""zstd's: BuildKit's default and ours."""

STAGES = """
FROM scratch AS system
ADD debian.tar fabric.tar /

FROM system AS ready
RUN --mount=type=bind,source=wheels,target=/mnt/wheels --mount=type=bind,source=tools,target=/mnt/tools true

FROM system AS whole
ARG PYTHON=3.11
RUN --mount=type=bind,source=wheels,target=/mnt/wheels --mount=type=bind,source=tools,target=/mnt/tools \\
    --mount=type=bind,source=requirements.txt,target=/mnt/requirements.txt --mount=type=tmpfs,target=/tmp \\
    export UV_NO_CONFIG=1 UV_OFFLINE=1 UV_CACHE_DIR=/tmp/uv UV_LINK_MODE=copy \\
 && /mnt/tools/uv venv --python "/usr/bin/python$PYTHON" /opt/venv \\
 && /mnt/tools/uv pip install --python /opt/venv/bin/python --no-index --find-links /mnt/wheels \\
        --no-deps --require-hashes --requirement /mnt/requirements.txt
"""


def buildkit(engine: Engine, folder: Path, python: str, target: str, compression: str) -> float:
    """Seconds of one `docker buildx build` of a stage, its archive thrown away."""
    level = f",compression-level={LEVEL}" if compression == "zstd" else ""
    output = f"type=oci,dest=-,compression={compression}{level}"
    words = [
        *("docker", "buildx", "build", "--network=none", "--provenance=false", "--build-arg", f"PYTHON={python}"),
        *("--target", target, "--output", output, str(folder)),
    ]
    start = time.perf_counter()
    done = subprocess.run(
        words, env=engine.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise SystemExit(f"docker buildx build: {done.stderr.decode()[-3000:]}")
    return time.perf_counter() - start


@contextlib.contextmanager
def dropped(engine: Engine) -> Iterator[None]:
    """BuildKit keeps nothing of the block."""
    try:
        yield
    finally:
        engine.docker("buildx", "prune", "--all", "--force", check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release")
    parser.add_argument("--variant", default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compression", nargs="+", choices=sorted(BARS), default=sorted(BARS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    selection = pins.load(ROOT / "versions.toml").select(args.release, args.variant)
    lock, store = read_lock(selection), Store(wheel_layers.DEFAULT_STORE)
    cache = LayerCache(Path(os.environ.get("SLIPWAY_CACHE") or cache_home() / "layers"))
    jobs = len(os.sched_getaffinity(0))
    request = Request(selection, lock, ROOT, store, cache, Path("unused"), FetchOptions(), jobs)
    options = wheel_layers.options_of(selection, lock, with_bytecode=False)
    load = os.getloadavg()[0]
    seconds: dict[str, list[float]] = {"ours": [], **{name: [] for name in args.compression}}
    peak = 0
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(session.available(cache_home() / "engine"))
        reference.need_buildx(engine)
        folder = stack.enter_context(reference.context_of(request, Progress()))
        (folder / "Dockerfile").write_text(STAGES)
        for number in range(args.rounds):
            run = wheel_layers.measure(lock, options, store, jobs, show=number == 0)
            seconds["ours"].append(run.seconds)
            peak = max(peak, run.peak_rss)
            for name in args.compression:
                with dropped(engine):
                    buildkit(engine, folder, selection.python, "ready", name)
                    seconds[name].append(buildkit(engine, folder, selection.python, "whole", name))
            print({name: round(found[-1], 1) for name, found in seconds.items()}, file=sys.stderr)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    print(f"{selection.label}: {len(lock.wheels)} wheels, {jobs} jobs, {args.rounds} rounds, load before {load:.2f}\n")
    print("| | median s | times ours | bar |\n|---|---|---|---|")
    for name, median in medians.items():
        label = "our layers (zstd)" if name == "ours" else f"BuildKit and uv ({name})"
        bar = BARS.get(name, "") if args.variant == "cuda" else ""
        print(f"| {label} | {median:.1f} | {median / medians['ours']:.1f} | {bar} |")
    print(f"\npeak memory of ours: {peak / 1e6:.0f} MB")
    if args.json:
        result: dict[str, Any] = {
            "date": str(datetime.date.today()), "image": selection.label, "cores": jobs, "load_before": load,
            "command": " ".join(["python3", "benchmarks/build.py", *sys.argv[1:]]), "engine": engine.version,
            "seconds": seconds, "peak_bytes": peak,
        }  # fmt: skip
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
