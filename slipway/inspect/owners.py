"""Which package a file belongs to, by what pip and dpkg wrote into the layer: RECORD files and dpkg's lists."""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

_DIST_INFO = re.compile(r"(?:.*/)?(?:site|dist)-packages/[^/]+\.dist-info/METADATA")


class Package(NamedTuple):
    """An installed package. `path` is the file that says so."""

    kind: Literal["wheel", "deb"]
    name: str
    version: str
    path: str

    @property
    def label(self) -> str:
        """`wheel torch 2.13.0`: how findings and `Member.owner` name it."""
        return f"{self.kind} {self.name} {self.version}"


def packages(texts: Mapping[str, bytes]) -> tuple[Package, ...]:
    """All packages that the kept texts of a layer speak of, by path."""
    return tuple(sorted({*_wheels(texts), *_debs(texts)}, key=lambda package: (package.path, package)))


def owners(texts: Mapping[str, bytes], found: tuple[Package, ...], links: Mapping[str, str]) -> dict[str, str]:
    """Path → label of the package that brought it. `links` are the layer's top-level symlinks (/lib → usr/lib)."""
    result: dict[str, str] = {}
    for package in found:
        if package.kind == "wheel":
            result.update(dict.fromkeys(_record_paths(texts, package.path), package.label))
    debs = {package.name: package.label for package in found if package.kind == "deb"}
    for path, text in texts.items():
        if path.startswith("var/lib/dpkg/info/") and path.endswith(".list"):
            name = path[18:-5].partition(":")[0]
            for line in text.decode("utf-8", "surrogateescape").splitlines():
                result[_through(line.lstrip("/"), links)] = debs.get(name, f"deb {name}")
    return result


def _wheels(texts: Mapping[str, bytes]) -> Iterator[Package]:
    for path, text in texts.items():
        if _DIST_INFO.fullmatch(path):
            head = _fields(text)
            yield Package("wheel", head.get("name", "?"), head.get("version", "?"), path)


def _debs(texts: Mapping[str, bytes]) -> Iterator[Package]:
    for path, text in texts.items():
        if path == "var/lib/dpkg/status" or path.startswith("var/lib/dpkg/status.d/"):
            for paragraph in re.split(rb"\n[ \t]*\n", text):
                head = _fields(paragraph)
                status = head.get("status", "install ok installed")
                if "package" in head and status.split()[-1:] == ["installed"]:
                    yield Package("deb", head["package"], head.get("version", "?"), path)


def _fields(text: bytes) -> dict[str, str]:
    """The fields of one RFC 822 paragraph, first lines only, by lower-case name."""
    fields: dict[str, str] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields.setdefault(name.lower(), value.strip())
    return fields


def _record_paths(texts: Mapping[str, bytes], metadata: str) -> Iterator[str]:
    folder = posixpath.dirname(metadata)
    site = posixpath.dirname(folder)
    text = texts.get(f"{folder}/RECORD", b"").decode("utf-8", "surrogateescape")
    try:
        for row in csv.reader(io.StringIO(text)):
            if row:
                path = row[0]
                yield posixpath.normpath(f"{site}/{path}") if "../" in path else f"{site}/{path}"
    except csv.Error:
        return


def _through(path: str, links: Mapping[str, str]) -> str:
    """Debian's lists say /lib/…, where merged-usr has it in usr/lib/…."""
    top, slash, rest = path.partition("/")
    return f"{links[top]}/{rest}" if slash and top in links else path
