"""Reads the tables of a lock file, each into its artifact; what is wrong is reported at its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import TypeVar

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from slipway.lock.model import Artifact, Deb, EfaInstaller, Source, Wheel
from slipway.pins import checks
from slipway.pins.reader import Table

A = TypeVar("A", bound=Artifact)


def checksum(table: Table, key: str) -> str:
    """A "sha256:…" string."""

    def check(value: str) -> str | None:
        if not value.startswith("sha256:"):
            return "must start with 'sha256:'"
        return checks.sha256(value.removeprefix("sha256:"))

    return _checked(table, key, check)


def _checked(table: Table, key: str, check: Callable[[str], str | None]) -> str:
    value = table.string(key)
    wrong = check(value) if value else None
    if wrong:
        table.report(key, wrong)
    return value


def read_rows(top: Table, key: str, read_row: Callable[[Table], A]) -> Iterable[A]:
    seen: set[tuple[str, str]] = set()
    last = ("", "")
    for row in top.rows(key):
        artifact = read_row(row)
        row.done()
        # A wheel stands once per distribution; a package once per architecture, and that is part of its file's name.
        identity = (artifact.name, "" if isinstance(artifact, Wheel) else artifact.file)
        if identity in seen:
            row.document.report(row.path, f"{artifact.name} stands in the lock twice")
        elif identity[0] < last[0]:
            row.document.report(row.path, f"{artifact.name} is out of order, after {last[0]}")
        seen.add(identity)
        last = identity
        yield artifact


def _fields(row: Table) -> tuple[str, str, str, int, str]:
    return (
        row.string("name"),
        row.string("version"),
        _checked(row, "file", checks.file_name),
        row.integer("size", least=1),
        _checked(row, "sha256", checks.sha256),
    )


def read_wheel(row: Table) -> Wheel:
    wheel = Wheel(*_fields(row), made=row.boolean("made"))
    wrong = _misnamed(wheel)
    if wrong:
        row.report("file", wrong)
    return wheel


def _misnamed(wheel: Wheel) -> str | None:
    """A wheel's file name says name and version too: they must be the same ones."""
    try:
        name, version, _, _ = parse_wheel_filename(wheel.file)
        same = name == wheel.name == canonicalize_name(wheel.name) and version == Version(wheel.version)
    except (InvalidWheelFilename, InvalidVersion):
        return f"{wheel.file!r} is not the file name of a wheel"
    return None if same else f"{wheel.file!r} is not {wheel.name} {wheel.version}"


def _place(row: Table, file: str) -> tuple[str, str, str]:
    suite, component = _checked(row, "suite", checks.word), row.string("component")
    path = _checked(row, "path", checks.image_path)
    if path and PurePosixPath(path).name != file:
        row.report("path", f"does not end in the file's name {file!r}")
    return suite, component, path


def read_deb(row: Table) -> Deb:
    fields = _fields(row)
    suite, component, path = _place(row, fields[2])
    arch, sets = row.string("arch"), row.strings("sets")
    unknown = [name for name in sets if name not in checks.DEB_SETS]
    if unknown or ("sets" in row.content and not sets):
        row.report("sets", f"must name one or more of {', '.join(checks.DEB_SETS)}")
    return Deb(*fields, suite=suite, component=component, path=path, arch=arch, sets=sets)


def read_installer(row: Table) -> EfaInstaller:
    return EfaInstaller(*_fields(row))


def read_source(row: Table) -> Source:
    fields = _fields(row)
    suite, component, path = _place(row, fields[2])
    return Source(*fields, suite=suite, component=component, path=path)
