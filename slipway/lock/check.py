"""Whether a lock still belongs to the pins, found out without the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.specifiers import SpecifierSet

from slipway.errors import InvalidInput, Problem
from slipway.lock import file
from slipway.lock.alias import locked_alias
from slipway.lock.model import Lock
from slipway.pins.model import Selection


class StaleLock(InvalidInput):
    """A lock that was made from other pins (exit 2); its problems name what differs."""


def check(selection: Selection, path: Path) -> Lock:
    """The lock at `path`, if it is what `build.py lock` wrote and was made from these pins.

    Raises UsageError where there is no lock, InvalidInput where it is malformed or edited, StaleLock.
    """
    lock = file.read(path)
    file.untouched(path)
    found = [Problem(str(path), 0, what, remedy) for what, remedy in differences(selection, lock)]
    if found:
        raise StaleLock(f"the lock of {selection.label} is stale: run `python3 build.py lock`", found)
    return lock


def differences(selection: Selection, lock: Lock) -> Iterator[tuple[str, str | None]]:
    """What in the lock isn't as the pins want it, each as (what, remedy or None)."""
    for key in ("release", "variant", "arch"):
        if getattr(lock, key) != getattr(selection, key):
            yield f"it is the lock of {key} {getattr(lock, key)}, not {getattr(selection, key)}", None
            return
    found = [*_wheels(selection, lock), *_aliases(selection, lock), *_debs(selection, lock), *_fabric(selection, lock)]
    yield from ((what, None) for what in found)
    if lock.pins != selection.checksum and not found:
        what = f"the pins that resolution depends on changed: {lock.pins} then, {selection.checksum} now"
        yield what, "something was taken out of versions.toml, or Python, glibc or the sources changed"


def _wheels(selection: Selection, lock: Lock) -> Iterator[str]:
    locked = {wheel.name: wheel for wheel in lock.wheels}
    for pin in selection.wheels:
        wheel = locked.get(pin.name)
        if wheel is None:
            yield f"{pin} is pinned (versions.toml:{pin.line}), the lock has no {pin.name}"
        elif pin.specifier and not SpecifierSet(pin.specifier, prereleases=True).contains(wheel.version):
            yield f"{pin} is pinned (versions.toml:{pin.line}), the lock has {wheel.name} {wheel.version}"
    for name in selection.exclude:
        if name in locked:
            yield f"{name} is excluded, the lock has {name} {locked[name].version}"


def _aliases(selection: Selection, lock: Lock) -> Iterator[str]:
    made = {wheel.name: wheel for wheel in lock.wheels if wheel.made}
    for alias in selection.aliases:
        now, then = locked_alias(alias), made.pop(alias.name, None)
        if then is None:
            yield f"{alias.name} {alias.version} is an alias, the lock has none"
        elif now != then:
            made_now = f"the driver makes {now.version} {now.sha256}"
            yield f"alias {alias.name}: {made_now}, locked is {then.version} {then.sha256}"
    for name in made:
        yield f"the lock has an alias {name}, versions.toml has none"


def _debs(selection: Selection, lock: Lock) -> Iterator[str]:
    for purpose, names in selection.debs.items():
        have = {deb.name for deb in lock.debs_for(purpose)}
        for name in sorted(set(names) - have):
            yield f"Debian package {name} is wanted in set {purpose!r}, the lock has none"


def _fabric(selection: Selection, lock: Lock) -> Iterator[str]:
    pin = selection.libfabric
    if selection.fabric == "source" and not any(s.file == pin.file and s.sha256 == pin.sha256 for s in lock.sources):
        have = ", ".join(f"{source.file} {source.sha256}" for source in lock.sources) or "none"
        yield f"libfabric is pinned to {pin.file} {pin.sha256}, the lock has {have}"
    efa = selection.installer
    if selection.fabric == "installer" and efa is not None and efa.sha256 not in {i.sha256 for i in lock.installers}:
        have = ", ".join(f"{installer.file} {installer.sha256}" for installer in lock.installers) or "none"
        yield f"the EFA installer is pinned to {efa.file} {efa.sha256}, the lock has {have}"
