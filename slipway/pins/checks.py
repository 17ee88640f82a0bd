"""What a single value of versions.toml must look like: each check gives None or what is wrong with it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ARCHES = ("amd64", "arm64")
FABRICS = ("installer", "source")
WHEEL_SOURCES = ("wheels", "pytorch")
DEB_SETS = ("image", "build")

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_DEB = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_WORD = re.compile(r"[a-z0-9][a-z0-9.+_-]*")


def sha256(value: str) -> str | None:
    """64 lower-case hexadecimal digits."""
    if len(value) != 64:
        return f"a sha256 has 64 hexadecimal digits, this has {len(value)} characters"
    wrong = re.search(r"[^0-9a-f]", value)
    if wrong:
        lower = " (write it in lower case)" if re.fullmatch(r"[0-9a-fA-F]{64}", value) else ""
        return f"a sha256 has lower-case hexadecimal digits only, not {wrong[0]!r}{lower}"
    return None


def version(value: str) -> str | None:
    """One PEP 440 version."""
    try:
        Version(value)
    except InvalidVersion:
        return f"{value!r} is not a PEP 440 version"
    return None


def local_version(value: str) -> str | None:
    """What follows the "+" of a PEP 440 version."""
    return None if re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)*", value) else f"{value!r} is not the local part of a version"


def wheel_version(value: str) -> str | None:
    """An exact version, "*", or a PEP 440 specifier."""
    if value == "*" or version(value) is None:
        return None
    if "===" in value or "@" in value:
        return f"{value!r}: '===' and addresses are not taken here, write the version"
    try:
        if len(SpecifierSet(value)):
            return None
    except InvalidSpecifier:
        pass
    return f"{value!r} is neither a version, nor a specifier such as '>=2,<3', nor '*'"


def distribution(value: str) -> str | None:
    """A distribution's name, without extras."""
    if not _NAME.fullmatch(value):
        return f"{value!r} is not the name of a distribution"
    if canonicalize_name(value) != value:
        return f"write the normalised name {canonicalize_name(value)!r} instead of {value!r}"
    return None


def requirement(value: str) -> str | None:
    """A distribution's name with or without extras: `ray[serve,llm]`."""
    try:
        parsed = Pep508(value)
    except InvalidRequirement:
        return f"{value!r} is not a distribution's name, such as 'ray[serve,llm]'"
    if parsed.specifier or parsed.marker or parsed.url:
        return f"{value!r}: only name and extras stand on the left, the version on the right of '='"
    return distribution(parsed.name)


def deb(value: str) -> str | None:
    """A Debian binary package's name (Debian policy 5.6.1), without version or architecture."""
    return None if _DEB.fullmatch(value) else f"{value!r} is not the name of a Debian package"


def word(value: str) -> str | None:
    """A suite, release or variant: it becomes part of file names."""
    return None if _WORD.fullmatch(value) else f"{value!r} must be of lower-case letters, digits, '.', '_', '+' and '-'"


def file_name(value: str) -> str | None:
    """A file's name without a folder."""
    if "/" in value or value in (".", "..") or "\0" in value:
        return f"{value!r} must be a file's name without a folder"
    return None


def image_path(value: str) -> str | None:
    """A path in the image: relative to its root, normalised."""
    path = PurePosixPath(value)
    if path.is_absolute():
        return f"{value!r} must be relative to the image's root, without the leading '/'"
    if ".." in path.parts or str(path) != value or value == "." or "\0" in value:
        return f"{value!r} must be a normalised path"
    return None


def url(value: str) -> str | None:
    """An http(s) or file address without credentials."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https", "file") or (parts.scheme != "file" and not parts.hostname):
        return f"{value!r} must be an http, https or file address"
    if parts.username or parts.password:
        return "credentials don't belong in this file"
    return None


def dotted_pair(value: str) -> str | None:
    """Two numbers: 3.11, 2.36."""
    return None if re.fullmatch(r"\d+\.\d+", value) else f"{value!r} must be two numbers, such as '3.11'"
