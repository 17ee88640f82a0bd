"""What a lock says: every artifact of one image, by size and sha256. No host stands in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Artifact:
    """One file that enters an image or helps to make it.

    size is in bytes, sha256 in lower-case hex, file is the name it is published under.
    """

    name: str
    version: str
    file: str
    size: int
    sha256: str

    @property
    def label(self) -> str:
        """How messages name it: `name version (file)`."""
        return f"{self.name} {self.version} ({self.file})"


@dataclass(frozen=True)
class Wheel(Artifact):
    """A wheel of the image's Python. `made` marks one that the driver writes itself (an alias wheel)."""

    made: bool = False


@dataclass(frozen=True)
class PoolFile(Artifact):
    """A file of a Debian archive: `path` is relative to the mirror's root, e.g. pool/main/b/bash/bash_….deb."""

    suite: str = ""
    component: str = "main"
    path: str = ""


@dataclass(frozen=True)
class Deb(PoolFile):
    """A binary package. `sets` says what it is for: "image" (the Debian layer), "build" (the sandbox that compiles)."""

    arch: str = ""
    sets: tuple[str, ...] = ("image",)


@dataclass(frozen=True)
class Source(PoolFile):
    """A source tarball of the Debian archive, compiled in a sandbox."""


@dataclass(frozen=True)
class EfaInstaller(Artifact):
    """Amazon's EFA installer: a tarball of packages for many systems, of which those for the image's are unpacked."""


@dataclass(frozen=True)
class Lock:
    """All artifacts of one release × variant × architecture, each group sorted by name.

    pins is the checksum ("sha256:…") of the part of versions.toml that this lock was resolved from: another
    checksum there means that the lock is stale.
    """

    release: str
    variant: str
    arch: str
    pins: str
    wheels: tuple[Wheel, ...] = ()
    debs: tuple[Deb, ...] = ()
    sources: tuple[Source, ...] = ()
    installers: tuple[EfaInstaller, ...] = ()

    def debs_for(self, purpose: str) -> tuple[Deb, ...]:
        """The packages of one set, "image" or "build"."""
        return tuple(deb for deb in self.debs if purpose in deb.sets)

    @property
    def downloads(self) -> tuple[Artifact, ...]:
        """Everything that has to be fetched: all but the wheels that the driver makes itself."""
        return tuple(artifact for artifact in self.artifacts if not getattr(artifact, "made", False))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Everything that the lock names."""
        return (*self.wheels, *self.debs, *self.sources, *self.installers)
