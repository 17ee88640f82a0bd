"""Compares two images: what changed in pins and labels, packages and files, and which bytes a pull would move.

A and B are OCI layout folders, as `build.py --output` writes them.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from slipway.cli import common
from slipway.errors import UsageError
from slipway.inspect.diff import compare
from slipway.inspect.diff_text import markdown, text
from slipway.inspect.image import Image, read_image
from slipway.inspect.layout import Layout, open_layout
from slipway.progress import Step, open_progress

HELP = "compare two images: pins, packages, files, bytes by layer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, metavar="A", help="OCI layout of the earlier image")
    parser.add_argument("after", type=Path, metavar="B", help="OCI layout of the later image")
    parser.add_argument("--arch", help="which image, where a layout holds several: amd64 or arm64")
    parser.add_argument("--files", action="store_true", help="list every changed path, not only sums by package")
    parser.add_argument("--markdown", action="store_true", help="print tables for a pull request")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at once (default: one per core)"
    )
    common.add_folders(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.json and args.markdown:
        raise UsageError("--json and --markdown are two forms of one output: choose one")
    layouts = [open_layout(folder, args.arch) for folder in (args.before, args.after)]
    cache = args.cache.expanduser().absolute() / "inspect" / "layers"
    with (
        open_progress() as progress,
        progress.step("read", sum(len(layout.layers) for layout in layouts)) as step,
    ):
        before, after = (_read(layout, cache, args.jobs, step) for layout in layouts)
    diff = compare(before, after)
    if args.json:
        print(json.dumps(diff.as_json(), indent=2))
    elif args.markdown:
        print(markdown(diff, all_files=args.files))
    else:
        print(text(diff, all_files=args.files))
    return 0


def _read(layout: Layout, cache: Path, jobs: int, step: Step) -> Image:
    return read_image(layout, cache=cache, jobs=max(jobs, 1), done=lambda _layer: step.advance())
