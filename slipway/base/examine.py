"""Whether an image can carry ours: its machine, its C library, its Python, and the libraries that ours look for.

Found in the image's files and never by its name or by its package database, before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from slipway.errors import InvalidInput, Problem
from slipway.inspect.image import Image
from slipway.pins.model import Selection

LIBRARIES = {
    "libhwloc.so.15": "libhwloc15",
    "libnuma.so.1": "libnuma1",
    "libstdc++.so.6": "libstdc++6",
}
"""What is loaded besides the C library → Debian's package that brings it."""

SOURCE_LIBRARIES = {
    "libefa.so.1": "ibverbs-providers",
    "libibverbs.so.1": "libibverbs1",
    "librdmacm.so.1": "librdmacm1",
}
"""The same for libfabric compiled from source; the EFA installer brings its own."""

INSTALLER_LIBRARIES = {"libnl-3.so.200": "libnl-3-200", "libnl-route-3.so.200": "libnl-route-3-200"}

PROGRAMS = {
    "usr/bin/tini": "tini",
    "usr/bin/gcc": "gcc",
    "usr/bin/g++": "g++",
    "bin/bash": "bash",
    "usr/bin/ps": "procps",
}

_PYTHONS = ("usr/bin/python{}", "usr/local/bin/python{}", "opt/python/bin/python{}")


@dataclass(frozen=True)
class Facts:
    """What our layers have to know of a base. python: path of its interpreter in the image; version: of it, as far as
    it is known ("3.11" or "3.11.2")."""

    python: str
    version: str


def examine(image: Image, selection: Selection, name: str) -> Facts:
    """The facts of a base that fits. Raises InvalidInput with all that is missing, and the packages that bring it."""
    python = next((path for each in _PYTHONS if image.tree.get(path := each.format(selection.python))), "")
    problems = [Problem(name, 0, what, remedy) for what, remedy in _wrong(image, selection, python)]
    if problems:
        raise InvalidInput(f"{name} can't be a base of {selection.label}", problems)
    return Facts(f"/{python}", _version(image, selection.python))


def _wrong(image: Image, selection: Selection, python: str) -> Iterator[tuple[str, str | None]]:
    if image.layout.architecture != selection.arch:
        yield f"it is for {image.layout.architecture or 'no machine at all'}, not for {selection.arch}", None
    have = glibc(image)
    if have is None:
        yield "it has no glibc (libc.so.6)", "wheels for manylinux need one; musl is another C library"
    elif have < _pair(selection.glibc):
        yield (
            f"its glibc is {'.'.join(map(str, have))}, wheels were chosen for {selection.glibc}",
            "take a newer base",
        )
    if not python:
        yield f"it has no Python {selection.python} in /usr/bin or /usr/local/bin", f"add python{selection.python}"
    elif not _header(image, selection.python):
        yield f"it has no Python.h of Python {selection.python}", f"add python{selection.python}-dev: Triton needs it"
    libraries = {**LIBRARIES, **(SOURCE_LIBRARIES if selection.fabric == "source" else INSTALLER_LIBRARIES)}
    known = image.loader.by_soname
    lacking = [package for library, package in libraries.items() if library not in known]
    lacking += [package for path, package in PROGRAMS.items() if image.tree.get(path) is None]
    if lacking:
        yield f"it lacks {', '.join(lacking)}", f"in it: apt-get install -y --no-install-recommends {' '.join(lacking)}"
    if image.tree.get("opt/venv") is not None:
        yield "it has /opt/venv, where our Python packages go", "take a base without"


def glibc(image: Image) -> tuple[int, ...] | None:
    """The newest version that libc.so.6 of the image defines, None without one."""
    found: list[tuple[int, ...]] = []
    for node in image.loader.by_soname.get("libc.so.6", ()):
        facts = node.member.elf
        names = facts.defines if facts is not None else ()
        found += [_pair(name.removeprefix("GLIBC_")) for name in names if re.fullmatch(r"GLIBC_\d+\.\d+", name)]
    return max(found, default=None)


def _pair(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _header(image: Image, python: str) -> bool:
    return any(image.tree.get(f"{root}/include/python{python}/Python.h") for root in ("usr", "usr/local", "opt/python"))


def _version(image: Image, python: str) -> str:
    """By dpkg where it knows, else without the last part: pyvenv.cfg is read by people only."""
    for package in image.packages:
        if package.name == f"python{python}-minimal":
            return package.version.partition("-")[0]
    return python
