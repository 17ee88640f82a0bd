"""Resolves the pins of versions.toml into locks: the exact version, size and sha256 of every artifact.

Without --release, --variant or --arch all pinned images are locked. Versions stay as they are where the pins allow
it; --upgrade moves them.

The files that the new lock names are then held against each other, as the ABI gate does with a finished image: what a
change brings is fetched for that, the rest is looked at where the store has it. A lock whose image would be refused is
not written.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slipway import lock as locks
from slipway.ahead import abi
from slipway.cli import common
from slipway.errors import InvalidInput, SlipwayError, UsageError
from slipway.lock import file, matrix
from slipway.lock.change import Change, changes, refuse_other_bytes, summary
from slipway.lock.check import StaleLock, check
from slipway.lock.model import Artifact, Lock
from slipway.lock.resolve import ALL, DEBIAN, resolve, try_wheels
from slipway.pins import Pins, Selection, load
from slipway.pins.reader import nearest
from slipway.progress import Progress, open_progress
from slipway.sources.mirrors import KINDS, Mirrors, parse_mirrors
from slipway.store import Store
from slipway.store.fetch import FetchOptions, fetch_artifacts

HELP = "resolve versions.toml into locks/, or check that they belong together"


@dataclass(frozen=True)
class Done:
    """One lock that was made or checked, and what changed in it. unread: files that could not be looked into before it
    was written, None where none was."""

    selection: Selection
    path: Path
    lock: Lock
    changes: tuple[Change, ...] = ()
    unread: tuple[Artifact, ...] | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "lock": self.selection.label,
            "path": str(self.path),
            "pins": self.lock.pins,
            "wheels": len(self.lock.wheels),
            "debs": len(self.lock.debs),
            "bytes": sum(artifact.size for artifact in self.lock.downloads),
            "changes": [change.as_json() for change in self.changes],
            "unread": None if self.unread is None else len(self.unread),
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_selection(parser)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 2 when a lock is stale or impossible")
    parser.add_argument(
        "--upgrade",
        action="append",
        default=[],
        metavar="NAME",
        help=f"take the newest allowed version of a distribution, of all .debs ({DEBIAN!r}) or of everything ({ALL!r})",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write the locks into DIR instead of locks/")
    parser.add_argument(
        "--mirror",
        dest="mirrors",
        action="append",
        default=[],
        metavar="KIND=URL",
        help=f"use this instead of what pip and apt are configured with; kinds: {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--abi",
        choices=("changed", "stored", "off"),
        default="changed",
        help="look into the files before the lock is written: fetch those that changed, take what the store has, or "
        "don't (default: %(default)s)",
    )
    common.add_folders(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    pins = load(common.ROOT / "versions.toml")
    mirrors = parse_mirrors(args.mirrors, os.environ)
    if args.check and (args.upgrade or args.output):
        raise UsageError("--check writes nothing: --upgrade and --output don't go with it")
    wanted = tuple(selections(pins, args.release, args.variant, args.arch))
    done: list[Done] = []
    failures: list[SlipwayError] = []
    with open_progress() as progress:
        for selection in wanted:
            try:
                if args.check:
                    done.append(_check(selection, mirrors, progress))
                else:
                    done.append(_lock(selection, args, mirrors, progress))
            except SlipwayError as failure:
                failures.append(failure)
    for earlier in failures[:-1]:
        progress.warn(str(earlier))
    if failures:
        raise failures[-1]
    store = Store(args.store)
    support = list(matrix.rows(pins, fits=lambda selection, lock: abi.fits(selection, lock, store, args.cache)))
    if args.json:
        rows = [row.as_json() for row in support]
        print(json.dumps({"locks": [item.as_json() for item in done], "support": rows}, indent=2))
    else:
        for item in done:
            checked = f"{item.selection.label}: belongs to versions.toml"
            print(checked if args.check else summary(item.selection.label, item.changes, item.lock))
        print(f"\n{matrix.table(support)}")
    return 0


def selections(pins: Pins, release: str | None, variant: str | None, arch: str | None) -> Iterator[Selection]:
    """The images that the arguments mean. Where none is named: all that are pinned, for the default architecture and
    for those that have a lock already."""
    if release or variant or arch:
        yield pins.select(release, variant, arch)
        return
    for release, variant in sorted(pins.selections):
        for arch in pins.arches:
            if arch == pins.default_arch or locks.path(release, variant, arch).exists():
                yield pins.select(release, variant, arch)


def _check(selection: Selection, mirrors: Mirrors, progress: Progress) -> Done:
    path = locks.path(selection.release, selection.variant, selection.arch)
    try:
        return Done(selection, path, check(selection, path))
    except StaleLock as stale:
        # Stale pins may be impossible too, and that is the better answer; only the indexes know.
        with progress.step(f"{selection.label}: do the changed pins go together?") as step:
            impossible = try_wheels(selection, mirrors)
            step.note("no" if impossible else "nothing speaks against it")
        if impossible is None:
            raise
        problems = (*stale.problems, *getattr(impossible, "problems", ()))
        if isinstance(impossible, InvalidInput):
            raise InvalidInput(f"{impossible.what}, and its lock is stale", problems) from stale
        raise impossible from stale


def _lock(selection: Selection, args: argparse.Namespace, mirrors: Mirrors, progress: Progress) -> Done:
    committed = locks.path(selection.release, selection.variant, selection.arch)
    before = file.read(committed) if committed.exists() else None
    old = before if ALL not in args.upgrade else None
    _known(selection, old, args.upgrade)
    with progress.step(f"{selection.label}: resolve") as step:
        new = resolve(selection, old, args.upgrade, mirrors)
        found = changes(old, new)
        step.note(f"{len(found)} changes")
    refuse_other_bytes([change for change in found if not _wanted(change, args.upgrade)])
    unread = None if args.abi == "off" else _look(selection, before, new, args, mirrors, progress)
    path = locks.path(selection.release, selection.variant, selection.arch, args.output)
    _write(path, file.dump(new))
    return Done(selection, path, new, found, unread)


def _look(
    selection: Selection,
    before: Lock | None,
    new: Lock,
    args: argparse.Namespace,
    mirrors: Mirrors,
    progress: Progress,
) -> tuple[Artifact, ...]:
    """Refuse a lock whose files don't fit together, as far as they are known. Returns those that are not."""
    store = Store(args.store)
    if args.abi == "changed" and before is not None:
        known = {artifact.sha256 for artifact in before.artifacts}
        fresh = store.missing([artifact for artifact in new.downloads if artifact.sha256 not in known])
        options = FetchOptions(mirrors=mirrors, defaults=selection.sources)
        try:
            if fresh:
                fetch_artifacts(fresh, store, options, progress)
        except SlipwayError as failure:
            progress.warn(f"what changed can't be looked into before it is locked: {failure.what}")
    with store.in_use():
        foreseen = abi.foresee(selection, new, store, args.cache, len(os.sched_getaffinity(0)), progress)
    abi.refuse(selection, foreseen)
    if foreseen.unread:
        progress.warn(
            f"{selection.label}: {len(foreseen.unread)} files are not in the store, so whether everything fits is seen "
            "when the image is built; `python3 build.py fetch` brings them"
        )
    return foreseen.unread


def _known(selection: Selection, old: Lock | None, upgrade: Sequence[str]) -> None:
    wheels = {wheel.name for wheel in old.wheels} if old else {pin.name for pin in selection.wheels}
    for name in upgrade:
        if name in (ALL, DEBIAN) or name in wheels or old is None:
            continue
        if any(deb.name == name for deb in old.debs):
            raise UsageError(f"{name} is a Debian package", remedy=f"--upgrade {DEBIAN} moves all of them together")
        remedy = nearest(name, [*wheels, ALL, DEBIAN]) or f"name a distribution, {DEBIAN!r} or {ALL!r}"
        raise UsageError(f"the lock of {selection.label} has no {name!r} to upgrade", remedy=remedy)


def _wanted(change: Change, upgrade: Sequence[str]) -> bool:
    return change.name in upgrade or (change.group == "deb" and DEBIAN in upgrade)


def _write(path: Path, text: str) -> None:
    """Whole or not at all; a file that is right already is left alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() == text.encode():
            return
        with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
            try:
                handle.write(text.encode())
                handle.flush()
                os.fchmod(handle.fileno(), 0o644)
                Path(handle.name).replace(path)
            except BaseException:
                Path(handle.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UsageError(f"can't write the lock: {error.strerror}", where=path) from error
