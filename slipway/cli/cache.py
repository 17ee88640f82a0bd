"""Looks after the cache of layers: `cache prune` removes what no lock in locks/ needs any more.

A lock whose wheels are not all known here keeps nothing but their indexes: its layers can't be told from others.
"""

from __future__ import annotations

import argparse
import json

from slipway import lock as locks
from slipway.cli import common
from slipway.errors import UsageError
from slipway.layers.cache import LayerCache
from slipway.layers.image_python import python_debs, python_folder
from slipway.layers.sweep import Keep, sweep
from slipway.lock import file
from slipway.pins import load
from slipway.progress import open_progress, size_text
from slipway.recipes import recipes
from slipway.store import Store

HELP = "prune the cache of layers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("prune",))
    parser.add_argument("--dry-run", action="store_true", help="only say how much would be removed")
    common.add_folders(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.cache.exists() and not args.cache.is_dir():
        raise UsageError(
            "the cache is no folder", where=args.cache, remedy="name another with --cache or SLIPWAY_CACHE"
        )
    with open_progress() as progress:
        cache = LayerCache(args.cache.expanduser().absolute(), progress.warn)
        freed = sweep(cache, needed(Store(args.store), cache), dry_run=args.dry_run)
    if args.json:
        print(json.dumps({"cache": str(cache.root), "dry_run": args.dry_run, "freed": freed}, indent=2))
        return 0
    told = ", ".join(f"{name} {size_text(size)}" for name, size in freed.items())
    print(f"{cache.root}: {'would free' if args.dry_run else 'freed'} {told}")
    return 0


def needed(store: Store, cache: LayerCache) -> Keep:
    """What the committed locks need of the cache."""
    pins = load(common.ROOT / "versions.toml")
    layers: set[str] = set()
    wheels: set[str] = set()
    pythons: set[str] = set()
    for path in sorted(locks.FOLDER.glob("*.toml")):
        lock = file.read(path)
        wheels |= {wheel.sha256 for wheel in lock.wheels}
        selection = pins.select(lock.release, lock.variant, lock.arch)
        pythons.add(python_folder(python_debs(lock.debs_for("image"), selection.python)))
        found = recipes(selection, lock, common.ROOT, store, cache)
        wheels |= {wheel.sha256 for wheel in found.made}
        if not found.missing:
            layers |= {recipe.key for recipe in found.layers}
    return Keep(layers, wheels, pythons)
