#!/usr/bin/env python3
"""What the layers that need running cost: the Debian layer, libfabric with its sandbox, the loader's cache over both.

    .venv/bin/python benchmarks/system_layers.py [--variant cpu] [--store DIR] [--repeat N] [--json FILE]

Each is made in an empty layer cache from a warm store, one after the other. Seconds are of this machine at this
moment; CPU seconds hold still on a busy one. Under a bar that is missed, the digest still says whether runs agree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from slipway import pins  # noqa: E402
from slipway.cli.common import cache_home  # noqa: E402
from slipway.debian import layer as debian  # noqa: E402
from slipway.errors import SlipwayError  # noqa: E402
from slipway.fabric import layer as fabric  # noqa: E402
from slipway.layers import ldcache  # noqa: E402
from slipway.layers.cache import CachedLayer, LayerCache  # noqa: E402
from slipway.lock import file as lock_file  # noqa: E402
from slipway.sandbox.workshop import Bench  # noqa: E402
from slipway.store.store import Store  # noqa: E402

BARS = {"debian": 40.0, "fabric": 90.0}
"""Seconds that each may take on two idle cores."""


@dataclass(frozen=True)
class Row:
    """One layer: median wall and CPU seconds (with children) of the runs, compressed bytes, digests seen."""

    layer: str
    seconds: float
    cpu: float
    size: int
    digests: tuple[str, ...]


def measure(make: Callable[[], CachedLayer]) -> tuple[float, float, CachedLayer]:
    """Wall and CPU seconds of making one layer."""
    before, started = os.times(), time.monotonic()
    layer = make()
    after = os.times()
    return time.monotonic() - started, sum(after[:4]) - sum(before[:4]), layer


def one_run(selection: pins.Selection, store: Store) -> dict[str, tuple[float, float, CachedLayer]]:
    """All three in an empty cache."""
    lock = lock_file.read(ROOT / "locks" / f"{selection.label}.toml")
    with tempfile.TemporaryDirectory(prefix="slipway-bench-", dir=os.environ.get("SLIPWAY_BENCH_DIR")) as folder:
        bench = Bench(store, LayerCache(Path(folder)))
        rows = {"debian": measure(lambda: debian.build(lock, selection, bench))}
        rows["fabric"] = measure(lambda: fabric.build(lock, selection, bench))
        rows["ldcache"] = measure(lambda: ldcache.build([rows["debian"][2], rows["fabric"][2]], bench))
        return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--release")
    parser.add_argument("--variant")
    parser.add_argument("--store", type=Path, default=Path(os.environ.get("SLIPWAY_STORE") or cache_home() / "store"))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    chosen = pins.load(ROOT / "versions.toml")
    selection = chosen.select(arguments.release, arguments.variant, None)
    try:
        runs = [one_run(selection, Store(arguments.store)) for _ in range(arguments.repeat)]
    except SlipwayError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    table = [
        Row(
            name,
            statistics.median(run[name][0] for run in runs),
            statistics.median(run[name][1] for run in runs),
            runs[0][name][2].blob.size,
            tuple(sorted({run[name][2].blob.digest for run in runs})),
        )
        for name in runs[0]
    ]
    load = os.getloadavg()[0]
    print(f"{selection.label}, {arguments.repeat} run(s), {os.cpu_count()} cores, load average now {load:.1f}")
    print(f"{'layer':10} {'seconds':>8} {'bar':>6} {'CPU s':>7} {'MB':>7}  digest")
    for row in table:
        bar = f"{BARS[row.layer]:.0f}" if row.layer in BARS else ""
        agree = row.digests[0][7:19] if len(row.digests) == 1 else f"{len(row.digests)} DIFFERENT"
        print(f"{row.layer:10} {row.seconds:8.1f} {bar:>6} {row.cpu:7.1f} {row.size / 1e6:7.1f}  {agree}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in table], indent=1) + "\n")
    return 0 if all(len(row.digests) == 1 for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
