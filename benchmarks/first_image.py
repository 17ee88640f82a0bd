#!/usr/bin/env python3
"""What building the image costs, case by case, from a warm store.

    python3 benchmarks/first_image.py [--variant cpu] [--only NAME …] [--json FILE]

Every case runs the command line as a user does, in a layer cache of its own. The table goes to stdout. Seconds are of
this machine at this moment: compare within one run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BARS = {"cold": 120.0, "system layers cached": 20.0, "nothing changed": 1.0, "serve_app changed": 3.0, "plan": 1.0}
"""Seconds that each case may take on two idle cores."""


@dataclass(frozen=True)
class Row:
    """One case: wall and CPU seconds (with children), and bytes of layers that were made."""

    case: str
    seconds: float
    cpu: float
    made: int
    layers: int
    digest: str


def run(checkout: Path, *words: str) -> tuple[float, float, dict[str, object]]:
    """Run build.py. Returns wall seconds, CPU seconds and its JSON document."""
    before, started = os.times(), time.monotonic()
    done = subprocess.run(
        [sys.executable, str(checkout / "build.py"), *words, "--json"], stdout=subprocess.PIPE, check=True, cwd=checkout
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - started, cpu, json.loads(done.stdout)


def copy_checkout(target: Path) -> Path:
    """What git would check out of the working tree, so that a changed serve_app touches no file of ours."""
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to(ROOT / ".venv")
    return target


def measure(work: Path, variant: str, only: list[str]) -> list[Row]:
    """All cases, in an order in which each finds the cache that it needs."""
    checkout = copy_checkout(work / "checkout")
    cache = work / "cache"
    rows: list[Row] = []

    def case(name: str, verb: str = "build") -> None:
        words = ["--variant", variant, "--cache", str(cache)]
        if verb == "build":
            words += ["--output", str(work / "out")]
        seconds, cpu, document = run(checkout, verb, *words)
        layers = document["layers"]
        made = [layer for layer in layers if layer["state"] in ("made", "miss")]  # type: ignore[attr-defined]
        size = sum(layer["bytes"] or 0 for layer in made)
        rows.append(Row(name, seconds, cpu, size, len(made), str(document.get("digest", ""))))
        print(f"{name}: {seconds:.1f} s", file=sys.stderr)

    case("cold")
    case("plan", "plan")
    case("nothing changed")
    with (checkout / "serve_app/src/serve_app/__init__.py").open("a") as file:
        file.write("# changed\n")
    case("serve_app changed")
    forget(cache, keep=("debian", "fabric", "ldcache"), work=work)
    case("system layers cached")
    return [row for row in rows if not only or row.case in only]


def forget(cache: Path, keep: tuple[str, ...], work: Path) -> None:
    """Drop all layers from the cache but those named, as they stand in the last image."""
    index = json.loads((work / "out/index.json").read_text())
    manifest = json.loads((work / "out/blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
    for layer in manifest["layers"]:
        notes = layer["annotations"]
        if notes["io.slipway.layer"] not in keep:
            for path in cache.glob(f"layers/*/{notes['io.slipway.key']}.*"):
                path.unlink()


def table(rows: list[Row]) -> str:
    """For README and docs."""
    lines = ["| case | seconds | bar | CPU seconds | layers made | bytes made |", "|---|---|---|---|---|---|"]
    for row in rows:
        bar = BARS.get(row.case)
        lines.append(
            f"| {row.case} | {row.seconds:.1f} | {bar or ''} | {row.cpu:.1f} | {row.layers} | {row.made / 1e6:.1f} MB |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--only", action="append", default=[], help="show only this case")
    parser.add_argument("--json", type=Path, help="write the raw figures here")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="first-image-", dir=ROOT / "out") as folder:
        rows = measure(Path(folder), args.variant, args.only)
    head = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.freedesktop_os_release()['PRETTY_NAME']}",
        "load_before": round(load, 2),
        "command": f"python3 benchmarks/first_image.py --variant {args.variant}",
    }
    print(f"{head['date']}, {head['machine']}, load {head['load_before']} before; warm store\n\n{table(rows)}")
    if args.json:
        args.json.write_text(json.dumps({**head, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
