"""What artifacts say of their licence and source, read from the artifacts themselves: METADATA of wheels, control and
copyright files of .debs. Written to locks/licences.json, so that an SBOM needs no store."""

from __future__ import annotations

import re
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from slipway.debian import deb
from slipway.lock.model import Artifact, Deb, Source, Wheel
from slipway.supply.components import Licence

LONGEST = 200
"""Characters of a licence's own words that are kept: some METADATA hold whole licence texts there."""

_SOURCE_LABELS = ("source", "source code", "repository", "github", "code", "homepage", "home")
_DEBIAN = {
    "expat": "MIT",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "public-domain": "",
    "artistic": "Artistic-1.0-Perl",
    "zlib": "Zlib",
    "isc": "ISC",
}
_GNU = re.compile(r"(A?GPL|LGPL|GFDL)-(\d)(?:\.(\d))?(\+)?")


def licence_of(artifact: Artifact, path: Path) -> Licence:
    """Read one artifact. What can't be read states nothing: an SBOM then says so."""
    if isinstance(artifact, Wheel):
        return of_metadata(_metadata(path))
    if isinstance(artifact, Deb):
        return _of_deb(artifact, path)
    if isinstance(artifact, Source):
        return Licence(source=f"{artifact.name} {artifact.version}")
    return Licence()


def _metadata(path: Path) -> str:
    with zipfile.ZipFile(path) as wheel:
        names = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1]
        return wheel.read(names[0]).decode("utf-8", "replace") if names else ""


def of_metadata(text: str) -> Licence:
    """https://packaging.python.org/en/latest/specifications/core-metadata/: License-Expression, else License, else
    classifiers."""
    fields = HeaderParser().parsestr(text)
    stated = str(fields.get("License-Expression") or fields.get("License") or "").strip()
    classes = [
        value.rpartition(" :: ")[2]
        for value in fields.get_all("Classifier") or []
        if value.startswith("License :: ") and not value.endswith("OSI Approved")
    ]
    words = stated if stated and stated.upper() != "UNKNOWN" else " / ".join(classes)
    first = words.strip().splitlines()[0][:LONGEST] if words.strip() else ""
    return Licence(spdx(words) if len(words) <= LONGEST else "", first, _source(fields))


def spdx(words: str) -> str:
    """A licence's own words as an SPDX expression; "" where they are none."""
    try:
        return str(canonicalize_license_expression(words.strip()))
    except (InvalidLicenseExpression, ValueError):
        return ""


def _source(fields: Message) -> str:
    links = {}
    for value in fields.get_all("Project-URL") or []:
        label, _, address = str(value).partition(",")
        links[label.strip().lower()] = address.strip()
    if home := fields.get("Home-page"):
        links.setdefault("home", str(home).strip())
    return next((links[label] for label in _SOURCE_LABELS if links.get(label)), next(iter(links.values()), ""))


def _of_deb(package: Deb, path: Path) -> Licence:
    fields = HeaderParser().parsestr(deb.control(path))
    source = re.fullmatch(r"(\S+)(?:\s+\((\S+)\))?", str(fields.get("Source") or package.name).strip())
    name, version = (source[1], source[2] or package.version) if source else (package.name, package.version)
    text = deb.content(path, f"usr/share/doc/{package.name}/copyright") or b""
    expression, words = of_copyright(text.decode("utf-8", "replace"))
    return Licence(expression, words, f"{name} {version}")


def of_copyright(text: str) -> tuple[str, str]:
    """(SPDX expression, short names) of a machine-readable copyright file (Debian's copyright-format 1.0);
    ("", "") for free text."""
    if "copyright-format" not in text[:2000] and "dep5" not in text[:2000].lower():
        return "", ""
    names = sorted({name.strip() for name in re.findall(r"(?m)^License:[ \t]*(\S[^\n]*)$", text)})
    words = ", ".join(names)
    parts = {_debian(part) for name in names for part in re.split(r"\s+(?:or|and|and/or)\s+|,\s*", name)}
    expression = spdx(" AND ".join(sorted(parts - {""}))) if "" not in parts and not _choices(names) else ""
    return expression, words if len(words) <= LONGEST else words[:LONGEST].rpartition(",")[0] + ", …"


def _choices(names: list[str]) -> bool:
    """Whether a name offers a choice or an exception, which joining with AND would misstate."""
    return any(re.search(r"\bor\b|\bwith\b|and/or", name) for name in names)


def _debian(name: str) -> str:
    """Debian's short name as SPDX's; as it is where it is none of those that differ."""
    if match := _GNU.fullmatch(name):
        kind, major, minor, later = match.groups()
        return f"{kind}-{major}.{minor or '0'}-{'or-later' if later else 'only'}"
    return _DEBIAN.get(name.lower(), name)
