"""versions.toml as it is written, value by value, before what hangs together is checked and completed."""

from __future__ import annotations

from dataclasses import dataclass

from slipway.pins.model import Budget, Contested, Installer, Libfabric, Requirement, Sources
from slipway.pins.reader import Document


@dataclass(frozen=True)
class Suite:
    """A Debian suite as the image's operating system: `python` is its python3, `glibc` decides which wheels run."""

    name: str
    python: str
    glibc: str
    debs: dict[str, tuple[str, ...]]
    setuid: dict[str, str]
    fabric: dict[str, tuple[str, ...]]
    efa_system: str


@dataclass(frozen=True)
class AliasPin:
    """An alias as written: its version is that of the wheel it stands for, with a local part behind it."""

    name: str
    local: str
    of: str
    reason: str
    extras: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """One way to make a release: what it adds, leaves out and allows."""

    name: str
    fabric: str
    wheel_sources: tuple[str, ...]
    wheels: tuple[Requirement, ...]
    aliases: tuple[AliasPin, ...]
    exclude: dict[str, str]
    debs: dict[str, tuple[str, ...]]
    budget: Budget
    setuid: dict[str, str]
    excuses: dict[str, str]
    contested: dict[str, Contested]
    gates: dict[str, dict[str, str]]


@dataclass(frozen=True)
class Release:
    """A set of versions proven to go together, named after Ray."""

    name: str
    python: str
    suite: str
    libfabric: str
    installer: str
    wheels: tuple[Requirement, ...]
    variants: dict[str, Variant]


@dataclass(frozen=True)
class File:
    """The whole of versions.toml, checked value by value; `slipway.pins.load` checks what hangs together."""

    document: Document
    defaults: dict[str, str]
    sources: Sources
    suites: dict[str, Suite]
    libfabrics: dict[str, Libfabric]
    installers: dict[str, Installer]
    releases: dict[str, Release]
    gates: dict[str, dict[str, str]]
    registry: str = ""
