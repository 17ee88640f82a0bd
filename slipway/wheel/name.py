"""A wheel's file name: what it says, and whether the image can take it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from slipway.errors import UsageError
from slipway.lock.model import Wheel

_SOURCES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tgz", ".zip", ".tar")


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name; `distribution` is normalised (PEP 503)."""

    distribution: NormalizedName
    version: Version
    tags: frozenset[Tag]


def parse_name(file: str) -> WheelName:
    """Take a wheel's file name apart. Raises UsageError for an sdist and for what is no wheel's name."""
    if not file.endswith(".whl"):
        source = file.endswith(_SOURCES)
        raise UsageError(
            f"{file} is a source distribution" if source else f"{file} is not a wheel",
            where=file,
            why="Slipway unpacks packages and never runs a package's build code" if source else None,
            remedy="pin a version that has a wheel for the image's Python and glibc, or build one and put it in a "
            "folder for `fetch --from`",
        )
    if "/" in file or "\\" in file or "\0" in file:
        raise UsageError(f"{file!r} is not a file name", where=file)
    try:
        name, version, _, tags = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise UsageError(f"{file} is not a wheel's file name: {error}", where=file) from error
    return WheelName(name, version, tags)


def check_name(wheel: Wheel, tags: Collection[Tag] | None) -> WheelName:
    """Hold a locked wheel's file name against its name, its version and the tags that the image accepts.

    Raises UsageError. With `tags` None the last check is left out.
    """
    parsed = parse_name(wheel.file)
    try:
        agrees = parsed.distribution == canonicalize_name(wheel.name) and parsed.version == Version(wheel.version)
    except InvalidVersion:
        agrees = False
    if not agrees:
        raise UsageError(
            f"{wheel.file} is not {wheel.name} {wheel.version}",
            where=wheel.file,
            why="another package than the pinned one would enter the image",
            remedy="python3 build.py lock",
        )
    if tags is not None and parsed.tags.isdisjoint(tags):
        raise UsageError(
            f"{wheel.file} does not fit the image: it is for {shown(parsed.tags)}",
            where=wheel.file,
            why="it would be found but fail to import, or crash",
            remedy="python3 build.py lock, or pin a version that has a wheel for the image's Python and glibc",
        )
    return parsed


def shown(tags: Iterable[Tag]) -> str:
    """Tags for people, a few of them."""
    names = sorted(map(str, tags))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
