"""What versions.toml says, read, checked and completed: all frozen, nothing here touches a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

RESOLVER_FORMAT = 1
"""Counted up when the same pins resolve to another kind of lock: old locks are then stale."""


@dataclass(frozen=True)
class Requirement:
    """One line of a `wheels` table: a distribution, its extras, and which version may be taken.

    name is normalised (PEP 503); version is as written: "2.60.0" (exactly that), "*" (any), or a PEP 440 specifier.
    line is where it stands in versions.toml, 0 where that isn't known.
    """

    name: str
    version: str
    extras: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)

    @property
    def specifier(self) -> str:
        """The PEP 440 specifier, empty for "*"."""
        if self.version == "*":
            return ""
        return self.version if self.version[0] in "<>=!~" else f"=={self.version}"

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{self.name}{extras}{self.specifier}"


@dataclass(frozen=True)
class Alias:
    """A wheel that only carries metadata: what asks for the distribution `name` is answered by `of`.

    version is of's own with a local part behind it, so that it satisfies the same pins: 0.29.0+cpu.
    """

    name: str
    version: str
    of: str
    reason: str
    extras: tuple[str, ...] = ()


@dataclass(frozen=True)
class Libfabric:
    """The source tarball that libfabric is compiled from. suite is the Debian suite whose source index names it."""

    version: str
    suite: str
    file: str
    sha256: str


@dataclass(frozen=True)
class Installer:
    """The EFA installer. size is in bytes, 0 where it isn't known.

    stand_in: why this is no installer of Amazon's but something of the same layout, for tests; "" for a real one. An
    image with a stand-in says so in its label and is refused as production.
    """

    version: str
    file: str
    sha256: str
    size: int = 0
    stand_in: str = ""


@dataclass(frozen=True)
class Contested:
    """A path that two wheels ship with different bytes, and whose bytes are taken."""

    path: str
    owner: str
    reason: str


@dataclass(frozen=True)
class Budget:
    """What an image may weigh: compressed_mb is in units of 10^6 bytes over all layers, 0 for no limit."""

    compressed_mb: int = 0


@dataclass(frozen=True)
class Sources:
    """Where artifacts come from, by kind. What pip and apt are configured with on a machine comes first.

    wheels:   "pip" (pip's index) or the URL of a simple index
    pytorch:  simple index with PyTorch's own builds, "" for none
    debian:   "apt" (apt's archive) or the URL of an archive's root
    snapshot: URL of an archive of old .debs, "" for none
    efa:      URL of the folder that holds the EFA installers, "" for none
    """

    wheels: str = "pip"
    pytorch: str = ""
    debian: str = "apt"
    snapshot: str = ""
    efa: str = ""


@dataclass(frozen=True)
class Selection:
    """Everything that one image needs: a release, a variant and an architecture, with all defaults filled in.

    debs:          set name ("image", "build") → package names
    efa_system:    folder of the EFA installer that has the packages for this suite
    wheel_sources: which of the sources wheels may come from, in order: "wheels", "pytorch"
    exclude:       distributions that the resolver must leave out → reason
    setuid:        path in the image → why it may keep its setuid or setgid bit
    gates:         gate → pattern of a finding's subject → why it may be so (slipway.gates)
    excuses:       sha256 of a wheel whose RECORD is wrong → reason
    contested:     path in the image → who owns it
    """

    release: str
    variant: str
    arch: str
    python: str
    suite: str
    glibc: str
    fabric: str
    wheels: tuple[Requirement, ...]
    libfabric: Libfabric
    sources: Sources
    installer: Installer | None = None
    efa_system: str = ""
    wheel_sources: tuple[str, ...] = ("wheels",)
    aliases: tuple[Alias, ...] = ()
    exclude: Mapping[str, str] = field(default_factory=dict)
    debs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    budget: Budget = Budget()
    setuid: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    excuses: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[str, Contested] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How messages name it, and the stem of its lock's file name."""
        return f"{self.release}-{self.variant}-{self.arch}"

    @property
    def fabric_label(self) -> str:
        """What the image's label says: "installer", "source", or "stand-in" for an installer that is not Amazon's."""
        stands_in = self.fabric == "installer" and self.installer is not None and self.installer.stand_in
        return "stand-in" if stands_in else self.fabric

    def resolution(self) -> dict[str, object]:
        """What resolution depends on and nothing else, JSON-ready: no reasons, budgets, excuses, hosts."""
        document: dict[str, object] = {
            "resolver": RESOLVER_FORMAT,
            "release": self.release,
            "variant": self.variant,
            "arch": self.arch,
            "python": self.python,
            "suite": self.suite,
            "glibc": self.glibc,
            "fabric": self.fabric,
            "wheels": sorted(str(requirement) for requirement in self.wheels),
            "wheel_sources": list(self.wheel_sources),
            "aliases": sorted([alias.name, alias.version, alias.of, sorted(alias.extras)] for alias in self.aliases),
            "exclude": sorted(self.exclude),
            "debs": {name: sorted(set(names)) for name, names in self.debs.items()},
        }
        if self.fabric == "installer" and self.installer is not None:
            document["installer"] = [self.installer.version, self.installer.file, self.installer.sha256]
        else:
            fabric = self.libfabric
            document["libfabric"] = [fabric.version, fabric.suite, fabric.file, fabric.sha256]
        return document

    @property
    def checksum(self) -> str:
        """What a lock records of its pins: "sha256:…" over `resolution()` as canonical JSON."""
        text = json.dumps(self.resolution(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
