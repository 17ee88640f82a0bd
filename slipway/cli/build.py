"""Builds an image from its lock: fetches what is missing, makes the layers that no earlier build has made, writes an
OCI layout. Nothing of the image is run, but for Debian's maintainer scripts and the libfabric build, both without a
network.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipway import lock as locks
from slipway.assemble import Image, Request, assemble, read_lock
from slipway.base.find import find_base
from slipway.cli import common, push
from slipway.cli.fetch import add_sources, fetch_options
from slipway.cli.parser import at_least, given
from slipway.errors import UsageError
from slipway.layers import records
from slipway.layers.cache import LayerCache
from slipway.layers.remote_options import add_layer_cache, remote_cache
from slipway.pins import load
from slipway.progress import Progress, open_progress, size_text
from slipway.store import Store

if TYPE_CHECKING:
    from slipway.engine.model import Engine

HELP = "assemble an image from its lock"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_image(parser)
    parser.add_argument(
        "--engine",
        choices=("none", "docker"),
        default="none",
        help="docker: the reference build instead (docker/Dockerfile: BuildKit and uv, the same lock), to "
        "OUTPUT/rootfs.tar, or into the engine with --load",
    )
    parser.add_argument("--push", action="store_true", help="push the image afterwards; these options say how:")
    push.add_options(parser)


def add_image(parser: argparse.ArgumentParser) -> None:
    """Which image, from what, and where to: shared with the verbs that build on the way."""
    common.add_selection(parser)
    parser.add_argument("--output", type=Path, metavar="DIR", help="OCI layout to write (default: out/<image>)")
    parser.add_argument(
        "--locks", type=Path, default=locks.FOLDER, metavar="DIR", help="read the lock from here, and lists of layers"
    )
    parser.add_argument("--load", action="store_true", help="load the image into the container engine afterwards")
    parser.add_argument(
        "--jobs",
        type=at_least(1),
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes at once (default: one per core)",
    )
    parser.add_argument(
        "--sandbox",
        choices=("strong", "weak"),
        default="strong",
        help="weak: compile libfabric although the network can't be taken away here; the layer records it",
    )
    parser.add_argument(
        "--base",
        type=given,
        metavar="REF@sha256:…",
        help="build upon this image of a registry instead of a Debian layer; it needs the suite's Python and glibc, "
        "which is checked first",
    )
    add_layer_cache(parser)
    common.add_folders(parser)
    add_sources(parser)
    common.add_json(parser)


def request(args: argparse.Namespace, progress: Progress) -> Request:
    """What the options ask for. Raises UsageError and InvalidInput."""
    selection = load(common.ROOT / "versions.toml").select(args.release, args.variant, args.arch)
    store, cache = Store(args.store), LayerCache(args.cache.expanduser().absolute(), progress.warn)
    options = fetch_options(args, selection)
    return Request(
        selection=selection,
        lock=read_lock(selection, args.locks),
        root=common.ROOT,
        store=store,
        cache=cache,
        output=(args.output or common.ROOT / "out" / selection.label).expanduser().absolute(),
        fetch=options,
        jobs=args.jobs,
        sandbox=args.sandbox,
        remote=remote_cache(args, selection, progress, args.locks),
        push_layers=args.push_layer_cache,
        record=records.path(args.locks, selection.label) if args.record_layers else None,
        base=find_base(args.base, selection, cache, options, progress) if args.base else None,
    )


def _reference(args: argparse.Namespace) -> int:
    """The same lock through BuildKit and uv."""
    from slipway.engine import session
    from slipway.image.definition import reference
    from slipway.reference import build

    if args.push or args.layer_cache or args.base:
        raise UsageError("the reference build is for comparing: --push, --base and --layer-cache don't go with it")
    with open_progress() as progress:
        asked = request(args, progress)
        asked.output.mkdir(parents=True, exist_ok=True)
        made = f"{reference(asked.selection)}-reference" if args.load else str(asked.output / "rootfs.tar")
        with session.available(common.cache_home() / "engine") as engine:
            build.build(asked, engine, f"type=docker,name={made}" if args.load else f"type=tar,dest={made}", progress)
    print(json.dumps({"engine": "docker", "output": made}) if args.json else made)
    return 0


def run(args: argparse.Namespace) -> int:
    if args.engine == "docker":
        return _reference(args)
    where = push.destination(args) if args.push else None
    variants = list(dict.fromkeys(name.strip() for name in (args.variant or "").split(",")))
    if len(variants) > 1 and "" in variants:
        raise UsageError(f"--variant {args.variant}: there is an empty name in the list", remedy="write cpu,cuda")
    if args.load:
        _engine()  # ask before minutes of work
    if len(variants) > 1:
        return _several(args, variants, where)
    with open_progress() as progress:
        asked = request(args, progress)
        with progress.step("build") as step:
            image = assemble(asked, progress)
            step.note(_summary(image))
        loaded = _load(image, progress) if args.load else None
        if where is not None:
            return push.push_layouts(args, [image.folder], where, progress)
    if args.json:
        print(json.dumps({**image.as_json(), "loaded": loaded}, indent=2))
    else:
        print(f"{image.reference} {image.digest}\n{image.folder}")
    return 0


def _several(args: argparse.Namespace, variants: list[str], where: Any) -> int:
    """`--variant cpu,cuda`: build all, then push all. A build that fails stops before anything is pushed."""
    if args.output:
        raise UsageError("--output names one folder, and several variants are asked for")
    images = []
    with open_progress() as progress:
        asked = [request(argparse.Namespace(**{**vars(args), "variant": name}), progress) for name in variants]
        for one in asked:
            with progress.step(f"build {one.selection.label}") as step:
                images.append(assemble(one, progress))
                step.note(_summary(images[-1]))
        loaded = [_load(image, progress) if args.load else None for image in images]
        if where is not None:
            return push.push_layouts(args, [image.folder for image in images], where, progress)
    if args.json:
        rows = [{**image.as_json(), "loaded": name} for image, name in zip(images, loaded, strict=True)]
        print(json.dumps({"images": rows}, indent=2))
    else:
        for image in images:
            print(f"{image.reference} {image.digest}\n{image.folder}")
    return 0


def _summary(image: Image) -> str:
    made = f"{len(image.made)} layers made" if image.made else "nothing changed"
    return f"{len(image.layers)} layers, {size_text(image.size)}, {made}"


def _load(image: Image, progress: Progress) -> str:
    from slipway.load.load import load as load_image

    return load_image(image.folder, _engine(), image.reference, progress).reference


def _engine() -> Engine:
    from slipway.engine.find import require

    return require()
