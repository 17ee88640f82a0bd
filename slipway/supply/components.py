"""What an image consists of, by its lock: one row for each artifact, with what SBOM and provenance say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from slipway.lock.model import Artifact, Deb, Lock, Source, Wheel


@dataclass(frozen=True)
class Licence:
    """What an artifact says of its licence and its source.

    expression: an SPDX expression, "" where it states none that is one; text: what it says in its own words;
    source: where its source is (for .debs the source package `name version`), "" where it does not say
    """

    expression: str = ""
    text: str = ""
    source: str = ""


@dataclass(frozen=True)
class Component:
    """One artifact. kind: "wheel", "deb", "source" or "installer"; purpose: "image", or "build" for what only
    compiles; purl: https://github.com/package-url/purl-spec."""

    kind: str
    artifact: Artifact
    purl: str
    purpose: str
    licence: Licence

    @property
    def id(self) -> str:
        """Unique in its lock, of the characters that SPDX allows: letters, digits, `.` and `-`."""
        arch = f"-{self.artifact.arch}" if isinstance(self.artifact, Deb) else ""
        name = f"{self.kind}-{self.artifact.name}-{self.artifact.version}{arch}"
        return "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "-" for c in name)


def components(lock: Lock, licences: Mapping[str, Licence]) -> list[Component]:
    """All artifacts of a lock, in its order. licences: by sha256."""
    return [
        Component(kind, artifact, purl(artifact), purpose, licences.get(artifact.sha256, Licence()))
        for kind, artifact, purpose in _rows(lock)
    ]


def _rows(lock: Lock) -> Iterator[tuple[str, Artifact, str]]:
    for wheel in lock.wheels:
        yield "wheel", wheel, "image"
    for deb in lock.debs:
        yield "deb", deb, "image" if "image" in deb.sets else "build"
    for source in lock.sources:
        yield "source", source, "image"
    for installer in lock.installers:
        yield "installer", installer, "image"


def purl(artifact: Artifact) -> str:
    """The package URL: which package this is, wherever it was downloaded from."""
    version = quote(artifact.version, safe=".-_~")
    if isinstance(artifact, Wheel):
        return f"pkg:pypi/{artifact.name}@{version}"
    if isinstance(artifact, Deb):
        return f"pkg:deb/debian/{quote(artifact.name, safe='.-_~')}@{version}?arch={artifact.arch}"
    if isinstance(artifact, Source):
        return f"pkg:deb/debian/{quote(artifact.name, safe='.-_~')}@{version}?arch=source"
    return f"pkg:generic/{quote(artifact.name, safe='.-_~')}@{version}?checksum=sha256:{artifact.sha256}"


def read_licences(folder: Path) -> dict[str, Licence]:
    """locks/licences.json: sha256 → Licence, made by `build.py sbom --licences`; {} where there is none."""
    path = folder / "licences.json"
    if not path.exists():
        return {}
    rows: dict[str, list[str]] = json.loads(path.read_text("utf-8"))["artifacts"]
    return {sha256: Licence(*row) for sha256, row in rows.items()}


def dump_licences(found: Mapping[str, Licence]) -> str:
    """One line an artifact, sorted by hash: merges well, and is a function of its content."""
    rows = ",\n".join(
        f"{json.dumps(sha256)}: {json.dumps([row.expression, row.text, row.source], ensure_ascii=False)}"
        for sha256, row in sorted(found.items())
    )
    return f'{{"format": 1, "artifacts": {{\n{rows}\n}}}}\n'


def table(found: list[Component]) -> str:
    """Licences and sources for people, one line a component: what /opt/slipway/licences.tsv holds."""
    lines = ["kind\tname\tversion\tlicence\tlicence text in the image\tsource\tpackage URL"]
    for one in found:
        if one.purpose == "image":
            licence = one.licence.expression or one.licence.text or "not stated"
            row = (one.kind, one.artifact.name, one.artifact.version, licence, where(one), one.licence.source, one.purl)
            lines.append("\t".join(" ".join(field.split()) for field in row))
    return "\n".join(lines) + "\n"


def where(one: Component) -> str:
    """Where the image has the text."""
    if one.kind == "deb":
        return f"/usr/share/doc/{one.artifact.name}/copyright"
    if one.kind == "wheel":
        return f"/opt/venv/lib/python*/site-packages/{one.artifact.file.partition('-')[0]}-*.dist-info"
    return f"/opt/slipway/licences/{one.artifact.name}"
