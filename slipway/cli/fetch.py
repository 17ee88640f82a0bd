"""Fills the store with the artifacts that a lock names: nothing enters it that is not, byte for byte, what is locked.

Each artifact is looked for in the store, in the folders given with --from, in a registry copy, at the mirrors that
pip and apt are configured with on this machine (--mirror overrides), and in a snapshot archive where one is named.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from slipway import lock as locks
from slipway.cli import common
from slipway.errors import UsageError
from slipway.lock import file
from slipway.lock.model import Lock
from slipway.pins import Selection, load
from slipway.progress import open_progress, seconds_text, size_text
from slipway.registry.copy import push_artifacts
from slipway.registry.reference import parse_reference
from slipway.sources.mirrors import KINDS, parse_mirrors
from slipway.store import Store
from slipway.store.fetch import DOWNLOADS, FetchOptions, fetch

HELP = "bring all artifacts of a lock into the store"


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Where artifacts are looked for: options that every verb shares that may have to fetch."""
    parser.add_argument(
        "--from",
        dest="folders",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="look in this folder first, at any depth, by file name or hash (repeatable; for sites without a network)",
    )
    parser.add_argument(
        "--registry-copy",
        metavar="REF",
        default=os.environ.get("SLIPWAY_REGISTRY_COPY", ""),
        help="then in the repository to which `fetch --push-copy` pushed (environment: SLIPWAY_REGISTRY_COPY)",
    )
    parser.add_argument(
        "--mirror",
        dest="mirrors",
        action="append",
        default=[],
        metavar="KIND=URL",
        help=f"use this instead of what pip and apt are configured with; kinds: {', '.join(KINDS)} (repeatable, "
        "in order; environment: SLIPWAY_MIRROR_WHEELS, …, SLIPWAY_SNAPSHOT)",
    )
    parser.add_argument(
        "--downloads", type=int, default=DOWNLOADS, metavar="N", help="downloads at the same time (%(default)s)"
    )


def fetch_options(args: argparse.Namespace, selection: Selection, *, rehash: bool = False) -> FetchOptions:
    """What the options of `add_sources` say. Raises UsageError where they say nonsense."""
    if args.registry_copy:
        parse_reference(args.registry_copy)
    for folder in args.folders:
        if not folder.is_dir():
            raise UsageError(f"--from {folder}: there is no such folder", remedy="name a folder that holds artifacts")
    if not 1 <= args.downloads <= 64:
        raise UsageError(f"--downloads {args.downloads}: from 1 to 64 make sense")
    return FetchOptions(
        folders=tuple(args.folders),
        registry_copy=args.registry_copy,
        mirrors=parse_mirrors(args.mirrors, os.environ),
        defaults=selection.sources,
        rehash=rehash,
        downloads=args.downloads,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_selection(parser)
    common.add_folders(parser)
    add_sources(parser)
    parser.add_argument(
        "--lock", type=Path, metavar="FILE", help="this lock file instead of the selected one of locks/"
    )
    parser.add_argument(
        "--push-copy",
        metavar="REF",
        help="afterwards push the artifacts to a registry, from where --registry-copy REF finds them when mirrors have "
        "moved on",
    )
    common.add_json(parser)


def read_lock(args: argparse.Namespace, selection: Selection) -> Lock:
    """The lock that the arguments mean. Raises UsageError where there is none."""
    return file.read(args.lock or locks.path(selection.release, selection.variant, selection.arch))


def run(args: argparse.Namespace) -> int:
    selection = load(common.ROOT / "versions.toml").select(args.release, args.variant, args.arch)
    lock = read_lock(args, selection)
    store = Store(args.store)
    options = fetch_options(args, selection, rehash=True)
    copied = parse_reference(args.push_copy) if args.push_copy else None
    with open_progress() as progress:
        result = fetch(lock, store, options, progress)
        digest = push_artifacts(lock, store, copied, progress) if copied else None
    document = {"lock": f"{lock.release}-{lock.variant}-{lock.arch}", "store": str(store.root), **result.as_json()}
    if copied:
        document["copy"] = f"{copied.host}/{copied.name}@{digest}"
    if args.json:
        print(json.dumps(document, indent=2))
        return 0
    print(
        f"{document['lock']}: {result.wanted} artifacts in {store.root}: {result.present} were there, {result.fetched} "
        f"fetched ({size_text(result.size)}) in {seconds_text(result.seconds)}"
    )
    for origin, count in sorted(result.origins.items()):
        print(f"  {count} from {origin}")
    if copied:
        print(f"pushed: {document['copy']}")
    return 0
