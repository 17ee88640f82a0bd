"""Proves that an image is what its pins say: hashes everything the lock names in the store, makes all layers again in
an empty cache, and compares the digest with the image in the output folder. Exit 4 when they differ.

With --registry REF the image in the registry is meant: its signature (--key: the public key), provenance and SBOM are
checked as well, and building must give its digest. Exit 4 when anything is wrong or not there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from pathlib import Path

from slipway.assemble import Image, Request, assemble, plan
from slipway.build import Context
from slipway.cli import build
from slipway.cli.parser import given
from slipway.errors import UsageError, WrongArtifact
from slipway.inspect.layout import open_layout
from slipway.layers import spot
from slipway.layers.cache import LayerCache
from slipway.layers.pool import WorkerPool
from slipway.progress import Progress, open_progress
from slipway.store.fetch import fetch_artifacts

HELP = "build again from nothing and compare the digest; hash the store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    build.add_image(parser)
    parser.add_argument(
        "--registry", type=given, metavar="REF", help="verify this image of a registry: HOST/NAME:TAG or @sha256:…"
    )
    parser.add_argument("--key", type=given, metavar="KEY", help="public key (PEM) or KMS URI whose signatures count")
    parser.add_argument(
        "--one-layer", action="store_true", help="make one layer of the cache again, chosen at random, and compare it"
    )
    parser.add_argument("--no-rebuild", action="store_true", help="with --registry: check the documents only")


def run(args: argparse.Namespace) -> int:
    if args.one_layer and (args.registry or args.key or args.no_rebuild):
        raise UsageError(
            "--one-layer looks at the cache of this machine, --registry REF at an image elsewhere",
            remedy="ask one after the other",
        )
    if args.one_layer:
        return _one_layer(args)
    if args.registry:
        return _remote(args)
    if args.key or args.no_rebuild:
        raise UsageError("--key and --no-rebuild belong to --registry REF")
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


def _remote(args: argparse.Namespace) -> int:
    from slipway.push.request import prepare
    from slipway.registry.pull import reading, resolve
    from slipway.registry.reference import parse_reference
    from slipway.supply.attach import papers
    from slipway.supply.signing import open_public
    from slipway.supply.verify import Check, check

    public = open_public(args.key) if args.key else None
    reference = parse_reference(args.registry)
    with open_progress() as progress:
        repository = prepare(reference, progress)()
        with reading(reference):
            image = resolve(repository, args.arch)
            labels = image.labels
            made = papers(labels, image.architecture)
            checks = check(repository, image, made, public)
        if not args.no_rebuild:
            # Any release and variant: the image says which it is. papers() has seen that the lock is this checkout's.
            args.release, args.variant = labels["io.slipway.release"], labels["io.slipway.variant"]
            args.arch = image.architecture
            again = rebuild(build.request(args, progress), progress)
            same = again.digest == image.manifest_digest
            checks.append(Check("build again", "right" if same else "wrong", "" if same else f"gives {again.digest}"))
    good = all(one.state == "right" or (one.name == "signature" and public is None) for one in checks)
    where = f"{reference.host}/{reference.name}@{image.digest}"
    if args.json:
        document = {"image": where, "verified": good, "checks": [one.as_json() for one in checks]}
        print(json.dumps(document, indent=2))
    else:
        print("\n".join([where, *(f"  {one.name}: {one.state}  {one.detail}".rstrip() for one in checks)]))
    if not good:
        wrong = ", ".join(f"{one.name} {one.state}" for one in checks if one.state != "right")
        raise WrongArtifact(
            f"the image is not proven: {wrong}",
            where=where,
            why="it can't be told from one that somebody else put there",
            remedy="look at who pushed it; pull by a digest that verifies",
        )
    return 0


def rebuild(asked: Request, progress: Progress) -> Image:
    """The image made from nothing but store and lock, in a cache and an output folder that are removed afterwards."""
    parent = asked.cache.root
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verify-", dir=parent) as folder:
        cache = LayerCache(Path(folder) / "cache", progress.warn)
        alone = dataclasses.replace(
            asked, cache=cache, output=Path(folder) / "out", remote=None, push_layers=False, record=None
        )
        return assemble(alone, progress)


def _one_layer(args: argparse.Namespace) -> int:
    """Make one layer of the cache again. The one that differs is dropped: whoever put it there, it is not its key's."""
    with open_progress() as progress:
        asked = build.request(args, progress)
        planned, found = plan(asked)
        layer = spot.choose(planned.layers)
        made = {wheel.sha256 for wheel in found.made}
        wanted = [artifact for artifact in layer.recipe.artifacts if artifact.sha256 not in made]
        fetch_artifacts(wanted, asked.store, asked.fetch, progress)
        for content in found.made.values():
            asked.store.add_bytes(content)
        with progress.step(f"make {layer.recipe.name} again"), WorkerPool(asked.jobs) as pool:
            context = Context(asked.store, asked.cache, pool, progress, asked.jobs, asked.sandbox)
            result = spot.check(layer, context)
    if args.json:
        document = {
            "layer": result.name,
            "cached": result.cached.blob.digest,
            "made": result.digest,
            "same": result.same,
        }
        print(json.dumps(document, indent=2))
    if not result.same:
        result.cached.drop()
        raise WrongArtifact(
            f"layer {result.name} of the cache is {result.cached.blob.digest}, its key gives {result.digest}",
            where=result.cached.path,
            why="it came from a cache that others write to, or making it is not deterministic",
            remedy="it was dropped; `python3 build.py verify` makes all of them again",
        )
    if not args.json:
        print(f"layer {result.name} is what its key says: {result.digest}")
    return 0
