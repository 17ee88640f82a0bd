"""The local package archive."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slipway.debian import repository
from slipway.errors import WrongArtifact
from tests.unit.debian.debs import make_deb


def test_layout(tmp_path: Path) -> None:
    pairs = [make_deb(tmp_path, name, {"./f": b""}, version="1:2.0+x~1") for name in ("zlib", "apt")]
    packages = repository.read_packages(pairs)
    assert [package.label for package in packages] == ["apt=1:2.0+x~1", "zlib=1:2.0+x~1"]
    folder = tmp_path / "archive"
    repository.write(folder, packages, "amd64")
    index = (folder / "dists/slipway/main/binary-amd64/Packages").read_text()
    for deb, path in pairs:
        assert f"Filename: pool/{deb.sha256}.deb\nSize: {deb.size}\nSHA256: {deb.sha256}\n\n" in index
        assert (folder / f"pool/{deb.sha256}.deb").resolve() == path
    release = (folder / "dists/slipway/Release").read_text()
    assert f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} main/binary-amd64/Packages\n" in release
    assert "Date" not in release
    assert repository.source_line(folder) == f"deb [trusted=yes] copy:{folder} slipway main"


@pytest.mark.parametrize("change", [{"name": "other"}, {"version": "2"}, {"arch": "arm64"}])
def test_a_package_that_is_not_what_the_lock_says(tmp_path: Path, change: dict[str, Any]) -> None:
    deb, path = make_deb(tmp_path, "a", {"./f": b""})
    with pytest.raises(WrongArtifact, match="the package says it is a 1-1 amd64"):
        repository.read_packages([(replace(deb, **change), path)])


def test_all_fits_every_architecture(tmp_path: Path) -> None:
    deb, path = make_deb(tmp_path, "a", {"./f": b""}, arch="all")
    assert repository.read_packages([(replace(deb, arch="amd64"), path)])
