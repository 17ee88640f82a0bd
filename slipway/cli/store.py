"""Looks after the store, the folder of downloaded artifacts.

list     what is in it, how large it is, when it was last used, and which locks name it
verify   hash every file; damaged ones are set aside, so that the next fetch brings them anew (exit 4)
prune    remove what no lock names
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from slipway import lock as locks
from slipway.cli import common
from slipway.errors import UsageError, WrongArtifact
from slipway.lock import file
from slipway.lock.model import Lock
from slipway.progress import open_progress, size_text
from slipway.store import Store
from slipway.store.parallel import each
from slipway.store.prune import Stored, prune, stored

HELP = "list, verify or prune the downloaded artifacts"

AGE_UNITS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
SIZE_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
HASHERS = 2
"""Files that are hashed at the same time: more only make a disk seek."""


class StoreDamaged(WrongArtifact):
    """Files of the store are not what their name says (exit 4). damaged: name → the hash that the bytes have."""

    def __init__(self, store: Store, files: int, damaged: Mapping[str, str]) -> None:
        shown = "\n".join(f"  {sha256} hashes to {actual}" for sha256, actual in sorted(damaged.items()))
        super().__init__(
            f"{len(damaged)} of {files} files of the store are damaged\n{shown}",
            where=store.root,
            why="they were set aside: no build takes them",
            remedy="python3 build.py fetch brings them anew; if this happens again, look at the disk",
        )
        self.damaged = dict(damaged)

    def as_json(self) -> dict[str, object]:
        return {**super().as_json(), "damaged": self.damaged}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "verify", "prune"))
    common.add_folders(parser)
    parser.add_argument(
        "--keep-lock",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="prune: keep what this lock names, besides all of locks/ (repeatable)",
    )
    parser.add_argument("--only-given-locks", action="store_true", help="prune: keep what --keep-lock names, no more")
    parser.add_argument(
        "--older-than", type=age, metavar="AGE", help="prune: only what was not used for 12h, 30d, 8w …"
    )
    parser.add_argument(
        "--max-size", type=size, metavar="SIZE", help="prune: only until at most 500MB, 20GB … are left"
    )
    parser.add_argument("--dry-run", action="store_true", help="prune: only say what would be removed")
    common.add_json(parser)


def age(text: str) -> float:
    """`30d` in seconds."""
    match = re.fullmatch(r"(\d+)([hdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write a number and h, d or w, e.g. 30d")
    return float(int(match[1]) * AGE_UNITS[match[2]])


def size(text: str) -> int:
    """`20GB` in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(kB|MB|GB|TB)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write a number and kB, MB, GB or TB, e.g. 20GB")
    return int(float(match[1]) * SIZE_UNITS[match[2]])


def run(args: argparse.Namespace) -> int:
    store = Store(args.store)
    if store.root.exists() and not store.root.is_dir():
        raise UsageError(
            "the store is no folder", where=store.root, remedy="name another with --store or SLIPWAY_STORE"
        )
    if args.action != "prune" and (args.keep_lock or args.only_given_locks or args.older_than or args.max_size):
        raise UsageError("--keep-lock, --only-given-locks, --older-than and --max-size belong to `store prune`")
    if args.action == "list":
        return _list(store, as_json=args.json)
    if args.action == "verify":
        return _verify(store, as_json=args.json)
    return _prune(store, args)


def _committed() -> dict[str, Lock]:
    return {path.stem: file.read(path) for path in sorted(locks.FOLDER.glob("*.toml"))}


def _list(store: Store, *, as_json: bool) -> int:
    named: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    for label, lock in _committed().items():
        for artifact in lock.artifacts:
            named.setdefault(artifact.sha256, []).append(label)
            labels[artifact.sha256] = artifact.file
    files = list(stored(store))
    rows = [{**_as_json(item), "file": labels.get(item.sha256), "locks": named.get(item.sha256, [])} for item in files]
    if as_json:
        print(json.dumps({"store": str(store.root), "files": rows}, indent=2))
        return 0
    for item, row in sorted(zip(files, rows, strict=True), key=lambda pair: -pair[0].size):
        used = time.strftime("%Y-%m-%d", time.localtime(item.used))
        print(
            f"{size_text(item.size):>10}  {used}  {row['file'] or item.sha256}  {' '.join(named.get(item.sha256, []))}"
        )
    print(f"{len(files)} files, {size_text(sum(item.size for item in files))} in {store.root}")
    return 0


def _verify(store: Store, *, as_json: bool) -> int:
    files = list(stored(store))
    damaged: dict[str, str] = {}
    with open_progress() as progress, progress.step("verify store", sum(item.size for item in files), "bytes") as step:

        def check(item: Stored) -> None:
            if actual := store.verify(item.sha256):
                damaged[item.sha256] = actual
            step.advance(item.size)

        each(files, check, HASHERS, threading.Event())
    if damaged:
        raise StoreDamaged(store, len(files), damaged)
    if as_json:
        print(json.dumps({"store": str(store.root), "files": len(files), "damaged": {}}, indent=2))
    else:
        print(f"{len(files)} files in {store.root}: all are what their name says")
    return 0


def _prune(store: Store, args: argparse.Namespace) -> int:
    keeping = {} if args.only_given_locks else _committed()
    keeping |= {str(path): file.read(path) for path in args.keep_lock}
    keep = {a.sha256 for lock in keeping.values() for a in lock.artifacts}
    done = prune(store, keep, older_than=args.older_than, max_size=args.max_size, dry_run=args.dry_run)
    if args.json:
        document = {
            "store": str(store.root),
            "dry_run": args.dry_run,
            "removed": [_as_json(item) for item in done.removed],
            "freed": done.freed,
            "left": sum(item.size for item in done.kept),
        }
        print(json.dumps(document, indent=2))
        return 0
    print(
        f"{store.root}: {len(done.removed)} files, {size_text(done.freed)} with leftovers "
        f"{'would be ' if args.dry_run else ''}removed; {len(done.kept)} files, "
        f"{size_text(sum(item.size for item in done.kept))} stay"
    )
    return 0


def _as_json(item: Stored) -> dict[str, object]:
    return {"sha256": item.sha256, "size": item.size, "used": int(item.used)}
