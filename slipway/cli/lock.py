"""Resolves the pins of versions.toml into locks: the exact version, size and sha256 of every artifact.

Without --release, --variant or --arch all pinned images are locked. Versions stay as they are where the pins allow
it; --upgrade moves them.
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
from slipway.cli import common
from slipway.errors import InvalidInput, SlipwayError, UsageError
from slipway.lock import file, matrix
from slipway.lock.change import Change, changes, refuse_other_bytes, summary
from slipway.lock.check import StaleLock, check
from slipway.lock.model import Lock
from slipway.lock.resolve import ALL, DEBIAN, resolve, try_wheels
from slipway.pins import Pins, Selection, load
from slipway.pins.reader import nearest
from slipway.progress import Progress, open_progress
from slipway.sources.mirrors import KINDS, Mirrors, parse_mirrors

HELP = "resolve versions.toml into locks/, or check that they belong together"


@dataclass(frozen=True)
class Done:
    """One lock that was made or checked, and what changed in it."""

    selection: Selection
    path: Path
    lock: Lock
    changes: tuple[Change, ...] = ()

    def as_json(self) -> dict[str, object]:
        return {
            "lock": self.selection.label,
            "path": str(self.path),
            "pins": self.lock.pins,
            "wheels": len(self.lock.wheels),
            "debs": len(self.lock.debs),
            "bytes": sum(artifact.size for artifact in self.lock.downloads),
            "changes": [change.as_json() for change in self.changes],
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
                    done.append(_lock(selection, args.upgrade, args.output, mirrors, progress))
            except SlipwayError as failure:
                failures.append(failure)
    for earlier in failures[:-1]:
        progress.warn(str(earlier))
    if failures:
        raise failures[-1]
    if args.json:
        support = [row.as_json() for row in matrix.rows(pins)]
        print(json.dumps({"locks": [item.as_json() for item in done], "support": support}, indent=2))
    else:
        for item in done:
            checked = f"{item.selection.label}: belongs to versions.toml"
            print(checked if args.check else summary(item.selection.label, item.changes, item.lock))
        print(f"\n{matrix.table(list(matrix.rows(pins)))}")
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


def _lock(
    selection: Selection, upgrade: Sequence[str], folder: Path | None, mirrors: Mirrors, progress: Progress
) -> Done:
    committed = locks.path(selection.release, selection.variant, selection.arch)
    old = file.read(committed) if committed.exists() and ALL not in upgrade else None
    _known(selection, old, upgrade)
    with progress.step(f"{selection.label}: resolve") as step:
        new = resolve(selection, old, upgrade, mirrors)
        found = changes(old, new)
        step.note(f"{len(found)} changes")
    refuse_other_bytes([change for change in found if not _wanted(change, upgrade)])
    path = locks.path(selection.release, selection.variant, selection.arch, folder)
    _write(path, file.dump(new))
    return Done(selection, path, new, found)


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
