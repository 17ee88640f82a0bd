"""Runs the gates on a built image: ABI, duplicates, budget, rights, secrets, leftovers. Exit code 6 when one says no.

Findings that are right can be excused in versions.toml, each with a reason. The image's labels say which pins it was
made from; --release and --variant take others.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from slipway.cli import common
from slipway.cli.parser import at_least
from slipway.gates.model import GateSettings
from slipway.gates.run import run_gates
from slipway.gates.settings import settings_of
from slipway.inspect.layout import Layout, open_layout
from slipway.pins import Pins, load
from slipway.progress import Progress, open_progress

HELP = "run the gates on a built image"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("layout", type=Path, nargs="?", metavar="LAYOUT", help="OCI layout (default: out/<image>)")
    common.add_selection(parser)
    parser.add_argument(
        "--jobs",
        type=at_least(1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes at once (default: one per core)",
    )
    common.add_folders(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    pins = load(common.ROOT / "versions.toml")
    layout = open_layout(args.layout or common.built(args), args.arch)
    with open_progress() as progress:
        settings = _settings(pins, layout, args, progress)
        with progress.step("gates", len(layout.layers)) as step:
            report = run_gates(
                layout,
                settings,
                cache=args.cache.expanduser().absolute() / "inspect",
                jobs=args.jobs,
                done=lambda _layer: step.advance(),
            )
            step.note(f"{len(report.results)} gates on {layout.digest}")
    if not args.json:
        print(report.text())
    report.refuse()
    if args.json:
        print(json.dumps(report.as_json(), indent=2))
    return 0


def _settings(pins: Pins, layout: Layout, args: argparse.Namespace, progress: Progress) -> GateSettings:
    """By the options, else by the image's labels; an image of somebody else's is held to the defaults."""
    release = args.release or layout.labels.get("io.slipway.release")
    variant = args.variant or layout.labels.get("io.slipway.variant")
    if not release and not variant:
        progress.warn("no label says which pins the image was made from: nothing is excused, it has no budget")
        return GateSettings()
    return settings_of(pins.select(release, variant))
