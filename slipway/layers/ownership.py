"""Who writes a path that two wheels install, over all wheels of an image; and that no file lies where a folder is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slipway.errors import UsageError
from slipway.lock.model import Wheel
from slipway.pins.model import Contested
from slipway.wheel.index import WheelIndex


@dataclass(frozen=True)
class Shared:
    """A path that several wheels install. reason is "" where all of them bring the same bytes and mode."""

    path: str
    owner: str
    others: tuple[str, ...]
    reason: str = ""

    def __str__(self) -> str:
        why = self.reason or "same bytes"
        return f"/{self.path}: written by {self.owner}, also in {', '.join(self.others)} ({why})"


@dataclass(frozen=True)
class Ownership:
    """Who owns what several wheels install.

    shared: all such paths, for people
    ceded:  wheel's name → path → owner, for all claimants but the owner
    lost:   the part of `ceded` where the owner's bytes are others
    unused: paths that versions.toml names an owner for and nobody disputes
    """

    shared: tuple[Shared, ...] = ()
    ceded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lost: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()


class PathConflict(UsageError):
    """Wheels that can't be installed together as the pins stand (exit 2). All conflicts are named."""


def settle(
    indexed: Sequence[tuple[Wheel, WheelIndex]],
    contested: Mapping[str, Contested] | None = None,
    reserved: Mapping[str, str] | None = None,
) -> Ownership:
    """Find an owner for every path: with equal bytes the first wheel by name, else the one that versions.toml names.

    contested: path in the image → its owner, with the reason
    reserved:  path → kind ("file", "symlink", "directory") of what the image has there anyway (the venv's own files)
    Raises PathConflict.
    """
    wanted = {path.lstrip("/"): pin for path, pin in (contested or {}).items()}
    claims: dict[str, list[tuple[Wheel, str]]] = {}
    first: dict[str, tuple[Wheel, str]] = {}
    for wheel, index in sorted(indexed, key=lambda item: (item[0].name, item[0].file)):
        for path in first.keys() & index.files.keys():
            claims.setdefault(path, [first[path]]).append((wheel, index.files[path]))
        first.update((path, (wheel, what)) for path, what in index.files.items() if path not in first)
    problems = _misplaced(first, reserved or {})
    shared: list[Shared] = []
    ceded: dict[str, dict[str, str]] = {}
    lost: dict[str, dict[str, str]] = {}
    for path, claimants in sorted(claims.items()):
        names = [wheel.name for wheel, _ in claimants]
        pin = wanted.get(path)
        if pin is None and len({what for _, what in claimants}) > 1:
            problems.append(f"/{path} has different bytes in {' and '.join(wheel.file for wheel, _ in claimants)}")
            continue
        if pin is not None and pin.owner not in names:
            problems.append(f"/{path} should be {pin.owner}'s, but it comes from {' and '.join(names)}")
            continue
        owner = names[0] if pin is None else pin.owner
        own = next(what for wheel, what in claimants if wheel.name == owner)
        others = tuple(name for name in names if name != owner)
        shared.append(Shared(path, owner, others, "" if pin is None else pin.reason))
        for wheel, what in claimants:
            if wheel.name != owner:
                ceded.setdefault(wheel.name, {})[path] = owner
                if what != own:
                    lost.setdefault(wheel.name, {})[path] = owner
    if problems:
        raise PathConflict(
            "wheels claim the same paths:" + "".join(f"\n    {problem}" for problem in problems),
            why="which file the image holds would depend on the order of installation",
            remedy="leave one of the wheels out, or name the owner and the reason under `contested` in versions.toml",
        )
    return Ownership(tuple(shared), ceded, lost, tuple(sorted(wanted.keys() - claims.keys())))


def _misplaced(first: Mapping[str, tuple[Wheel, str]], reserved: Mapping[str, str]) -> list[str]:
    """Files that lie where another wheel, or the image, has a folder, and the other way round."""
    folders: dict[str, str] = {}
    for path in first:
        parent = path.rpartition("/")[0]
        while parent and parent not in folders:
            folders[parent] = path
            parent = parent.rpartition("/")[0]
    problems = [
        f"/{path} is a file in {first[path][0].file} and a folder in {first[folders[path]][0].file}"
        for path in sorted(folders.keys() & first.keys())
    ]
    for path, kind in sorted(reserved.items()):
        if path in first:
            problems.append(f"/{path} of {first[path][0].file} is a {kind} of the image itself")
        elif path in folders and kind != "directory":
            inside = folders[path]
            problems.append(f"/{inside} of {first[inside][0].file} lies below /{path}, a {kind} of the image itself")
    return problems
