"""From a selection to a lock: wheels and .debs at once, keeping what the old lock has where the pins allow it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from slipway.errors import SlipwayError, UsageError
from slipway.lock.archive import candidates
from slipway.lock.debs import resolve_debs
from slipway.lock.installer import resolve_installer
from slipway.lock.model import Lock
from slipway.lock.wheels import resolve_wheels
from slipway.pins.model import Selection
from slipway.sources import pip
from slipway.sources.mirrors import Mirrors

DEBIAN, ALL = "debian", "all"
"""What --upgrade takes beside names of distributions."""


def resolve(
    selection: Selection, old: Lock | None = None, upgrade: Sequence[str] = (), mirrors: Mirrors | None = None
) -> Lock:
    """A lock for a selection. Errors as of `resolve_wheels` and `resolve_debs`.

    old:     the lock before: its versions stay where the pins allow it and an archive still has them
    upgrade: names of distributions, "debian" (all .debs) or "all": these are not held to the old lock
    """
    mirrors = mirrors or Mirrors()
    fresh = set(upgrade)
    wheels = tuple(w for w in old.wheels if w.name not in fresh and not w.made) if old and ALL not in fresh else ()
    debs = old.debs if old and not fresh & {ALL, DEBIAN} else ()
    choices = candidates(selection.suite, selection.sources.debian, mirrors)
    with ThreadPoolExecutor(2) as pool:  # both wait for the network most of the time
        packages = pool.submit(resolve_debs, selection, choices, debs, old.sources if old else ())
        distributions = resolve_wheels(selection, pip.ask(), mirrors, wheels)
        resolved = packages.result()
    return Lock(
        release=selection.release,
        variant=selection.variant,
        arch=selection.arch,
        pins=selection.checksum,
        wheels=distributions,
        debs=resolved.debs,
        sources=resolved.sources,
        installers=resolve_installer(selection, old.installers if old else (), mirrors),
    )


def try_wheels(selection: Selection, mirrors: Mirrors | None = None) -> UsageError | None:
    """Why the wheels of a selection can't go together; None when they can, and when no index answers."""
    try:
        resolve_wheels(selection, pip.ask(), mirrors or Mirrors())
    except UsageError as impossible:
        return impossible
    except SlipwayError:
        return None
    return None
