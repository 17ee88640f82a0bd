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

    def debs_for(self, purpose: str) -> tuple[Deb, ...]:
        """The packages of one set, "image" or "build"."""
        return tuple(deb for deb in self.debs if purpose in deb.sets)

    @property
    def downloads(self) -> tuple[Artifact, ...]:
        """Everything that has to be fetched: all but the wheels that the driver makes itself."""
        return (*(wheel for wheel in self.wheels if not wheel.made), *self.debs, *self.sources)
