"""Proves that an image is what its pins say: hashes everything the lock names in the store, makes all layers again in
an empty cache, and compares the digest with the image in the output folder. Exit 4 when they differ.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from slipway.assemble import Image, Request, assemble
from slipway.cli import build
from slipway.errors import UsageError, WrongArtifact
from slipway.inspect.layout import open_layout
from slipway.layers.cache import LayerCache
from slipway.progress import Progress, open_progress
from slipway.store.fetch import fetch_artifacts

HELP = "build again from nothing and compare the digest; hash the store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    build.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with open_progress() as progress:
        asked = build.request(args, progress)
        if not (asked.output / "index.json").exists():
            raise UsageError("there is no image to verify", where=asked.output, remedy="python3 build.py")
        there = open_layout(asked.output, asked.selection.arch)
        options = dataclasses.replace(asked.fetch, rehash=True)
        checked = fetch_artifacts(asked.lock.downloads, asked.store, options, progress)
        again = rebuild(asked, progress)
    layers = {layer.name: layer.blob.digest for layer in again.layers}
    before = [layer.digest for layer in there.layers]
    differ = [name for name, digest in layers.items() if digest not in before]
    if args.json:
        document = {
            "image": there.digest,
            "rebuilt": again.digest,
            "same": there.digest == again.digest,
            "differing_layers": differ,
            "store": checked.as_json(),
        }
        print(json.dumps(document, indent=2))
    if again.digest != there.digest:
        raise WrongArtifact(
            f"the image is {there.digest}, its pins give {again.digest}",
            where=asked.output,
            why=f"layers that differ: {', '.join(differ) or 'none, but the configuration'}",
            remedy="build it again (python3 build.py); if they still differ, a layer is not deterministic: "
            "python3 build.py diff names the files",
        )
    if not args.json:
        print(f"{there.digest} is what its pins give; {checked.wanted} artifacts hashed")
    return 0


def rebuild(asked: Request, progress: Progress) -> Image:
    """The image made from nothing but store and lock, in a cache and an output folder that are removed afterwards."""
    parent = asked.cache.root
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verify-", dir=parent) as folder:
        cache = LayerCache(Path(folder) / "cache", progress.warn)
        return assemble(dataclasses.replace(asked, cache=cache, output=Path(folder) / "out"), progress)
