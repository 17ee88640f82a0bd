"""Reads what a lock needs out of Debian's Packages and Sources indices (Debian policy 5, deb822).

The indices hold tens of thousands of paragraphs, of which a few hundred are wanted: those are looked for by the line
that names the file, and only they are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FILENAME = re.compile(rb"^Filename: *(.+?) *$", re.MULTILINE)


def paragraph(text: bytes) -> dict[str, str]:
    """The fields of one paragraph, names in lower case; further lines of a field follow it, each after a newline."""
    fields: dict[str, str] = {}
    last = ""
    for line in text.decode("utf-8", "replace").splitlines():
        if line[:1] in (" ", "\t"):
            if last:
                fields[last] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            last = name.strip().lower()
            fields[last] = value.strip()
    return fields


def packages(index: bytes, wanted: Mapping[str, object]) -> Iterator[tuple[str, dict[str, str]]]:
    """(path, fields) of the paragraphs of a Packages index whose Filename is among `wanted`."""
    for match in _FILENAME.finditer(index):
        path = match[1].decode("utf-8", "replace")
        if path in wanted:
            yield path, paragraph(_around(index, match.start()))


@dataclass(frozen=True)
class SourceFile:
    """A file of a source package: path below the archive's root, size in bytes."""

    package: str
    version: str
    path: str
    size: int
    sha256: str


def source_file(index: bytes, file: str) -> SourceFile | None:
    """The file of that name in a Sources index, None when no source package has it."""
    match = re.search(rb"^ [0-9a-f]{64} \d+ " + re.escape(file.encode()) + rb"$", index, re.MULTILINE)
    if match is None:
        return None
    fields = paragraph(_around(index, match.start()))
    sha256, size, _ = match[0].decode().split()
    path = f"{fields.get('directory', '')}/{file}".lstrip("/")
    return SourceFile(fields.get("package", ""), fields.get("version", ""), path, int(size), sha256)


def source_version(index: bytes, package: str) -> str | None:
    """The version of a source package, None when the index hasn't it."""
    match = re.search(rb"^Package: " + re.escape(package.encode()) + rb"$", index, re.MULTILINE)
    return None if match is None else paragraph(_around(index, match.start())).get("version")


def _around(index: bytes, at: int) -> bytes:
    """The paragraph that holds the position."""
    start = index.rfind(b"\n\n", 0, at) + 1
    end = index.find(b"\n\n", at)
    return index[start : len(index) if end < 0 else end]
