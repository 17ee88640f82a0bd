"""Programs of a later Debian for tests and benchmarks: cosign and crane are not in Debian 12.

They are unpacked into the cache, not installed: nothing of this machine's packages changes.
"""

from __future__ import annotations

import os
from pathlib import Path

from slipway.cli import common
from slipway.engine.install import KEYRING, debian_mirror, source_entry
from slipway.errors import MissingError
from slipway.host import process


def later_debian(name: str, suite: str) -> Path:
    """The program `name` of the package of that name: this machine's, else unpacked from `suite`.

    Raises MissingError where it can't be had here. The package's archive is the one that apt is configured with.
    """
    found = process.which(name)
    if found is not None:
        return found
    folder = common.cache_home() / "tools" / f"{name}-{suite}"
    program = folder / "usr" / "bin" / name
    if program.exists():
        return program
    mirror = debian_mirror()
    if mirror is None or not Path(KEYRING).exists():
        raise MissingError(f"{name} is not installed, and no Debian archive is configured here")
    for path in (folder / "lists" / "partial", folder / "cache" / "archives" / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "apt.sources").write_text(source_entry(mirror, suite))
    options = [
        *("-o", f"Dir::Etc::SourceList={folder / 'apt.sources'}", "-o", "Dir::Etc::SourceParts=/dev/null"),
        *("-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}"),
        *("-o", "APT::Sandbox::User=root" if os.geteuid() == 0 else "Debug::NoLocking=1"),
    ]
    process.run(["apt-get", "-q", *options, "update"], error=MissingError, timeout=300)
    process.run(["apt-get", "-q", *options, "download", name], cwd=folder, error=MissingError, timeout=300)
    (package,) = folder.glob(f"{name}_*.deb")
    process.run(["dpkg-deb", "-x", package, folder], error=MissingError)
    package.unlink()
    return program
