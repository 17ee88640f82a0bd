"""Compares two images: what changed in pins and labels, packages and files, and which bytes a pull would move.

A and B are OCI layout folders, as `build.py --output` writes them, or images of a registry: HOST/NAME@sha256:… or
HOST/NAME:TAG. Those are pulled into the cache; what two images share is pulled once. `--markdown` makes release notes.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from slipway.cli import common
from slipway.cli.parser import at_least
from slipway.errors import UsageError
from slipway.inspect.diff import compare
from slipway.inspect.diff_text import markdown, text
from slipway.inspect.image import Image, read_image
from slipway.inspect.layout import Layout, open_layout
from slipway.progress import Progress, Step, open_progress

HELP = "compare two images: pins, packages, files, bytes by layer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", help="the earlier image: OCI layout, or HOST/NAME@sha256:…")
    parser.add_argument("after", metavar="B", help="the later image")
    parser.add_argument("--arch", help="which image, where a layout holds several: amd64 or arm64")
    parser.add_argument("--files", action="store_true", help="list every changed path, not only sums by package")
    parser.add_argument("--markdown", action="store_true", help="print tables for a pull request")
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
    if args.json and args.markdown:
        raise UsageError("--json and --markdown are two forms of one output: choose one")
    root = args.cache.expanduser().absolute()
    with open_progress() as progress:
        layouts = [_open(name, args.arch, root / "pulled", progress) for name in (args.before, args.after)]
        with progress.step("read", sum(len(layout.layers) for layout in layouts)) as step:
            before, after = (_read(layout, root / "inspect" / "layers", args.jobs, step) for layout in layouts)
    diff = compare(before, after)
    if args.json:
        print(json.dumps(diff.as_json(), indent=2))
    elif args.markdown:
        print(markdown(diff, all_files=args.files))
    else:
        print(text(diff, all_files=args.files))
    return 0


def _open(name: str, arch: str | None, pulled: Path, progress: Progress) -> Layout:
    """A folder where there is one, else an image of a registry."""
    if Path(name).exists() or "/" not in name.strip("./") or (":" not in name and "@" not in name):
        return open_layout(Path(name), arch)
    from slipway.push.request import prepare
    from slipway.registry.pull import pull, reading
    from slipway.registry.reference import parse_reference

    pulled.mkdir(parents=True, exist_ok=True)
    reference = parse_reference(name)
    repository = prepare(reference, progress)()
    with reading(reference):
        return open_layout(pull(repository, arch, pulled, progress))


def _read(layout: Layout, cache: Path, jobs: int, step: Step) -> Image:
    return read_image(layout, cache=cache, jobs=max(jobs, 1), done=lambda _layer: step.advance())
