"""Where the members of a wheel go in the image, and which names are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slipway.wheel.refused import RefusedWheel

MAX_PATH = 1024
"""Bytes of a member's name: Linux stops at 4096 for a whole path, container tools earlier."""

_MAX_PART = 255
_BAD = re.compile(r"[\x00-\x1f\x7f\\]|^/|(^|/)\.{0,2}(/|\Z)|^[A-Za-z]:")
_REASONS = (
    (re.compile(r"\x00"), "its name holds a NUL byte"),
    (re.compile(r"[\x00-\x1f\x7f]"), "its name holds a control character"),
    (re.compile(r"\\"), "its name holds a backslash"),
    (re.compile(r"^/"), "its name is absolute"),
    (re.compile(r"^[A-Za-z]:"), "its name has a drive letter"),
    (re.compile(r"(^|/)\.\.(/|\Z)"), "its name leads out of the tree"),
)


def check_member(name: str, wheel: str) -> None:
    """Refuse a member's name that could write outside its place or delete lower layers' files. Raises RefusedWheel."""
    if _BAD.search(name):
        what = next((what for pattern, what in _REASONS if pattern.search(name)), "its name is not normalised")
        raise RefusedWheel(wheel, what, member=name, why="it could be written outside of the image's Python")
    if ".wh." in name and any(part.startswith(".wh.") for part in name.split("/")):
        raise RefusedWheel(
            wheel,
            "its name begins with .wh.",
            member=name,
            why="in an image layer such a name deletes files of lower layers",
        )
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise RefusedWheel(wheel, "its name is not UTF-8", member=name) from error
    if len(encoded) > MAX_PATH or (
        len(encoded) > _MAX_PART and any(len(part) > _MAX_PART for part in encoded.split(b"/"))
    ):
        raise RefusedWheel(wheel, f"its name is too long ({len(encoded)} bytes)", member=name)


@dataclass(frozen=True)
class Venv:
    """The image's virtual environment, by the rules of Python's `venv` and `posix_prefix` schemes.

    prefix: its folder, relative to the image's root
    python: "3.11"
    base:   absolute path of the interpreter it is made from
    """

    prefix: str = "opt/venv"
    python: str = "3.11"
    base: str = "/usr/bin/python3.11"

    @property
    def site(self) -> str:
        """site-packages; purelib and platlib are one folder."""
        return f"{self.prefix}/lib/python{self.python}/site-packages"

    @property
    def scripts(self) -> str:
        return f"{self.prefix}/bin"

    @property
    def interpreter(self) -> str:
        """What scripts name in their first line."""
        return f"/{self.prefix}/bin/python"

    @property
    def cache_tag(self) -> str:
        """sys.implementation.cache_tag of the image's Python: the middle of a .pyc file's name."""
        return f"cpython-{self.python.replace('.', '')}"

    def headers(self, distribution: str) -> str:
        return f"{self.prefix}/include/site/python{self.python}/{distribution}"

    def scheme(self, name: str, distribution: str) -> str | None:
        """The folder of one of the specification's five schemes; None for another name."""
        return {
            "purelib": self.site,
            "platlib": self.site,
            "scripts": self.scripts,
            "headers": self.headers(distribution),
            "data": self.prefix,
        }.get(name)
