"""A package archive on this machine, made of the locked .debs alone: what apt is given to choose from.

Form: "DebianRepository/Format" in Debian's wiki. Its index states the locked hashes, so apt checks them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from slipway.debian import deb
from slipway.debian.control import field
from slipway.errors import WrongArtifact
from slipway.lock.model import Deb

SUITE = "slipway"
COMPONENT = "main"


@dataclass(frozen=True)
class Package:
    """One locked .deb, where it lies, and what its control file says."""

    deb: Deb
    path: Path
    control: str

    @property
    def label(self) -> str:
        """How apt is told to take exactly this one: name=version."""
        return f"{field(self.control, 'Package')}={field(self.control, 'Version')}"


def read_packages(debs: Sequence[tuple[Deb, Path]]) -> list[Package]:
    """Read every control file. Raises WrongArtifact when one says another name, version or arch than the lock."""
    with ThreadPoolExecutor() as pool:
        controls = list(pool.map(lambda pair: deb.control(pair[1]), debs))
    packages = [Package(one, path, text) for (one, path), text in zip(debs, controls, strict=True)]
    for package in packages:
        says = tuple(field(package.control, name) for name in ("Package", "Version", "Architecture"))
        if says[:2] != (package.deb.name, package.deb.version) or says[2] not in ("all", package.deb.arch):
            raise WrongArtifact(
                f"the package says it is {' '.join(says)}, the lock says {package.deb.label} {package.deb.arch}",
                where=package.path,
                why="apt would not find what the lock names",
                remedy="python3 build.py lock --upgrade debian",
            )
    return sorted(packages, key=lambda package: package.deb.name)


def index(packages: Iterable[Package]) -> str:
    """The archive's Packages file."""
    return "".join(
        f"{package.control}\n"
        f"Filename: {pool_name(package.deb)}\n"
        f"Size: {package.deb.size}\n"
        f"SHA256: {package.deb.sha256}\n\n"
        for package in packages
    )


def release(packages_file: bytes, arch: str) -> str:
    """The archive's Release file: unsigned, as the archive is ours; it carries the index's hash and no date."""
    name = f"{COMPONENT}/binary-{arch}/Packages"
    return (
        f"Suite: {SUITE}\nCodename: {SUITE}\nArchitectures: {arch} all\nComponents: {COMPONENT}\nSHA256:\n"
        f" {hashlib.sha256(packages_file).hexdigest()} {len(packages_file)} {name}\n"
    )


def pool_name(deb: Deb) -> str:
    """Where a package lies in the archive: a name without the characters that apt escapes."""
    return f"pool/{deb.sha256}.deb"


def write(folder: Path, packages: Sequence[Package], arch: str) -> None:
    """Lay the archive out below `folder`; the packages themselves are symlinks to where they lie."""
    (folder / "pool").mkdir(parents=True)
    for package in packages:
        (folder / pool_name(package.deb)).symlink_to(package.path.absolute())
    lists = folder / "dists" / SUITE
    binary = lists / COMPONENT / f"binary-{arch}"
    binary.mkdir(parents=True)
    text = index(packages).encode()
    (binary / "Packages").write_bytes(text)
    (lists / "Release").write_text(release(text, arch))


def source_line(folder: Path) -> str:
    """Its line for sources.list(5). It names a folder of this machine: it must not stay in an image."""
    return f"deb [trusted=yes] copy:{folder} {SUITE} {COMPONENT}"
