"""Executables of a distribution: launchers of entry points, and first lines of the scripts it ships.

https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

import configparser
import re

from slipway.wheel.refused import RefusedWheel

_SECTIONS = ("console_scripts", "gui_scripts")
_VALUE = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attr>[\w.]+)\s*(\[[^\]]*\])?\s*", re.DOTALL)
_BAD_NAME = re.compile(r"[\x00-\x1f\x7f/\\]|^\.{0,2}\Z|^\.wh\.")
_PLACEHOLDER = b"#!python"

_IMPORT = re.compile(r"^from (?P<module>[\w.]+) import \w+$", re.MULTILINE)
_CALL = re.compile(r"^    sys\.exit\((?P<attr>[\w.]+)\(\)\)$", re.MULTILINE)

_LAUNCHER = """\
#!{interpreter}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({attr}())
"""
# What pip, uv and distlib write does the same, and also strips suffixes that programs have on Windows. The text stands
# here, not in a library, so that a layer's bytes belong to slipway.wheel.content.FORMAT alone.


def launchers(content: bytes, wheel: str, member: str, interpreter: str) -> dict[str, bytes]:
    """Name → content of the programs that an entry_points.txt asks for. `interpreter` stands in their first line.

    Raises RefusedWheel for a name that is no plain file name and for a target that is no `module:attribute`.
    """
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, default_section="")
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case
    try:
        parser.read_string(content.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise RefusedWheel(wheel, f"it can't be read ({str(error).splitlines()[0]})", member=member) from error
    made: dict[str, bytes] = {}
    for section in _SECTIONS:
        if not parser.has_section(section):
            continue
        for name, value in parser.items(section):
            script = made.setdefault(name, _launcher(name, value, wheel, member, interpreter))
            if script != _launcher(name, value, wheel, member, interpreter):
                raise RefusedWheel(wheel, f"two entry points are called {name!a}", member=member)
    return made


def _launcher(name: str, value: str, wheel: str, member: str, interpreter: str) -> bytes:
    if _BAD_NAME.search(name) or len(name.encode()) > 255:
        raise RefusedWheel(
            wheel,
            f"entry point {name!a} has a name that is no plain file name",
            member=member,
            why="its program would be written outside of the folder for programs",
        )
    match = _VALUE.fullmatch(value)
    parts = [*match["module"].split("."), *match["attr"].split(".")] if match else []
    if match is None or not all(part.isidentifier() for part in parts):
        raise RefusedWheel(wheel, f"entry point {name!a} does not name `module:attribute` but {value!a}", member=member)
    attr = match["attr"]
    return _LAUNCHER.format(
        interpreter=interpreter, module=match["module"], first=attr.partition(".")[0], attr=attr
    ).encode()


def has_placeholder(start: bytes) -> bool:
    """Whether a script's first line is for the installer to write."""
    return start.startswith(_PLACEHOLDER)


def with_interpreter(content: bytes, interpreter: str) -> bytes:
    """A script whose first line, `#!python…`, names the image's Python instead; others are left alone."""
    if not has_placeholder(content):
        return content
    return f"#!{interpreter}\n".encode() + content.partition(b"\n")[2]


def launcher_target(content: bytes) -> str | None:
    """`module:attribute` of a launcher that any installer wrote for an entry point (pip, uv, ours), else None.

    To compare trees of two installers, which word their launchers differently.
    """
    text = content.decode("utf-8", "replace")
    imported = _IMPORT.search(text)
    called = _CALL.search(text)
    if not text.startswith("#!") or imported is None or called is None or len(text) > 1000:
        return None
    return f"{imported['module']}:{called['attr']}"
