"""Shows what a build would do: every layer with its key, whether it has to be made and why, and the bytes to fetch.
Needs no engine, no root and no network, and changes nothing.
"""

from __future__ import annotations

import argparse
import json

from slipway.assemble import plan, to_fetch
from slipway.cli import build
from slipway.plan import Plan
from slipway.progress import open_progress, size_text
from slipway.store.fetch import bytes_to_fetch

HELP = "show which layers would be made, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    build.add_image(parser)


def run(args: argparse.Namespace) -> int:
    with open_progress() as progress:
        asked = build.request(args, progress)
        planned, found = plan(asked)
    missing = bytes_to_fetch(to_fetch(planned, found), asked.store)
    if args.json:
        document = {
            "image": planned.image,
            "pins": asked.lock.pins,
            "layers": [layer.as_json() for layer in planned.layers],
            "bytes_to_fetch": missing,
            "bytes_cached": sum(layer.cached.blob.size for layer in planned.layers if layer.cached),
            "notes": list(planned.notes),
        }
        print(json.dumps(document, indent=2))
    else:
        print(table(planned, missing))
    return 0


def table(planned: Plan, missing: int) -> str:
    """The plan for people."""
    width = max(len(layer.recipe.name) for layer in planned.layers)
    lines = [f"{planned.image}: {len(planned.layers)} layers, {len(planned.misses)} to make"]
    for layer in planned.layers:
        size = size_text(layer.cached.blob.size) if layer.cached else "?"
        state = "hit " if layer.cached else "make"
        lines.append(f"  {state}  {layer.recipe.name:{width}}  {layer.recipe.key[:12]}  {size:>9}  {layer.why}")
    lines.append(f"to fetch: {size_text(missing)}")
    lines += [f"note: {note}" for note in planned.notes]
    return "\n".join(lines)
