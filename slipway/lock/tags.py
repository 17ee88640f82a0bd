"""Which wheel of a distribution goes into an image: the most specific one that its Python and glibc can run.

https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's and OCI's name of an architecture → the kernel's, which wheels and uv use."""

_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST = {"amd64": 5, "arm64": 17}  # the oldest glibc minor that manylinux defines for it

T = TypeVar("T")


def platforms(glibc: str, arch: str) -> list[str]:
    """Platform tags from the newest glibc that the image has down, as pip orders them."""
    major, minor = (int(part) for part in glibc.split("."))
    machine = MACHINES[arch]
    found = []
    for older in range(minor, _OLDEST[arch] - 1, -1):
        found.append(f"manylinux_{major}_{older}_{machine}")
        if older in _LEGACY and major == 2:
            found.append(f"{_LEGACY[older]}_{machine}")
    return [*found, f"linux_{machine}"]


def image_tags(python: str, glibc: str, arch: str) -> list[Tag]:
    """All tags that the image accepts, the most specific first: cp311-cp311, abi3, none, then py3-none-any."""
    version = tuple(int(part) for part in python.split("."))
    names = platforms(glibc, arch)
    interpreter = f"cp{version[0]}{version[1]}"
    return [
        *cpython_tags(python_version=version, abis=[interpreter], platforms=names),
        *compatible_tags(python_version=version, interpreter=interpreter, platforms=names),
    ]


def best(files: Iterable[tuple[str, T]], tags: Sequence[Tag]) -> tuple[str, T] | None:
    """The (wheel file name, anything) to take, or None when none fits.

    Of two that fit equally well the higher build number wins, then the first file name: not the order given.
    """
    rank = {tag: index for index, tag in reversed(list(enumerate(tags)))}
    fitting = []
    for file, item in files:
        _, _, build, own = parse_wheel_filename(file)
        ranks = [rank[tag] for tag in own if tag in rank]
        if ranks:
            fitting.append((min(ranks), -build[0] if build else 0, file, item))
    if not fitting:
        return None
    chosen = min(fitting, key=lambda entry: entry[:3])
    return chosen[2], chosen[3]


def uv_platform(glibc: str, arch: str) -> str:
    """uv's --python-platform for the image."""
    return f"{MACHINES[arch]}-manylinux_{glibc.replace('.', '_')}"
