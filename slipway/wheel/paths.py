"""Where the members of a wheel go in the image, and which names are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slipway.wheel.refused import RefusedWheel

MAX_PATH = 1024
"""Bytes of a member's name: Linux stops at 4096 for a whole path, container tools earlier."""

_MAX_PART = 255
_SUSPECTS = ("\\", "//", "/./", "/../", "/.\n", "/..\n", "/.wh.", "/\n", "\n/", "\n.", "\n\n")
_CONTROLS = bytes({*range(32), 127} - {10})  # line feeds separate names there
_REASONS = (
    (re.compile(r"\x00"), "its name holds a NUL byte"),
    (re.compile(r"[\x00-\x1f\x7f]"), "its name holds a control character"),
    (re.compile(r"\\"), "its name holds a backslash"),
    (re.compile(r"^/"), "its name is absolute"),
    (re.compile(r"^[A-Za-z]:"), "its name has a drive letter"),
    (re.compile(r"(^|/)\.\.(/|\Z)"), "its name leads out of the tree"),
    (re.compile(r"(^|/)\.?(/|\Z)"), "its name is not normalised"),
)


def check_members(names: Sequence[str], wheel: str) -> None:
    """`check_member` for many names: one look at all of them, and a closer one only where something may be wrong."""
    if not names:
        return
    text = "\n" + "\n".join(names) + "\n"
    fine = (
        text.isascii()
        and text.count("\n") == len(names) + 1
        and not any(suspect in text for suspect in _SUSPECTS)
        and len(text.encode().translate(None, _CONTROLS)) == len(text)
        and max(map(len, names)) <= _MAX_PART
        and not any(name[1:2] == ":" for name in names)
    )
    if not fine:
        for name in names:
            check_member(name, wheel)


def check_member(name: str, wheel: str) -> None:
    """Refuse a member's name that could write outside its place or delete lower layers' files. Raises RefusedWheel."""
    if (what := next((what for pattern, what in _REASONS if pattern.search(name)), None)) is not None:
        raise RefusedWheel(wheel, what, member=name, why="it could be written outside of the image's Python")
    if any(part.startswith(".wh.") for part in name.split("/")):
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
    if len(encoded) > MAX_PATH or any(len(part) > _MAX_PART for part in encoded.split(b"/")):
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
