"""Unpacking packages without their scripts."""

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.debian.deb import tar_in
from slipway.sandbox import unpack
from tests.unit.debian.debs import deb_bytes


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 8))
def test_shares_hold_everything_once(sizes: list[int], workers: int) -> None:
    items = [Path(str(number)) for number in range(len(sizes))]
    shares = unpack.shared(items, sizes, workers)
    assert sorted(item for share in shares for item in share) == sorted(items)
    assert len(shares) <= workers
    loads = [sum(sizes[int(item.name)] for item in share) for share in shares]
    if len(shares) == workers:
        assert max(loads) - min(loads) <= max(sizes)


def special(name: str, kind: bytes, target: str = "", mode: int = 0o755) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def test_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tarfile.TarInfo("./usr/bin/s")
    data = deb_bytes(
        "a",
        {
            "./": special("./", tarfile.DIRTYPE),
            "./usr": special("./usr", tarfile.DIRTYPE),
            "./bin": special("./bin", tarfile.DIRTYPE),
            "./bin/x": b"through a link",
            "./usr/share": special("./usr/share", tarfile.DIRTYPE),
            "./usr/share/doc": special("./usr/share/doc", tarfile.DIRTYPE),
            "./usr/share/doc/a": b"not wanted",
            "./usr/y": special("./usr/y", tarfile.SYMTYPE, "bin/x"),
            "./usr/z": special("./usr/z", tarfile.LNKTYPE, "./bin/x"),
        },
    )
    assert script.mode == 0o644
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    monkeypatch.chdir(tmp_path)
    with tar_in(io.BytesIO(data), "a.deb", "data") as members:
        unpack._extract(members)
    assert (tmp_path / "bin").is_symlink()
    assert (tmp_path / "usr/bin/x").read_text() == (tmp_path / "usr/y").read_text() == "through a link"
    assert (tmp_path / "usr/z").stat().st_ino == (tmp_path / "usr/bin/x").stat().st_ino
    assert not (tmp_path / "usr/share/doc/a").exists()


def test_alternatives_are_made_where_they_lack(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    for name in ("mawk", "automake-1.15", "automake-1.16", "gcc"):
        (tmp_path / "usr/bin" / name).touch()
    (tmp_path / "usr/bin/cc").symlink_to("tcc")
    for link, patterns in unpack.ALTERNATIVES.items():
        unpack._alternative(tmp_path, link, patterns)
    assert (tmp_path / "usr/bin/awk").readlink() == Path("mawk")
    assert (tmp_path / "usr/bin/automake").readlink() == Path("automake-1.15")
    assert (tmp_path / "usr/bin/cc").readlink() == Path("tcc")
    assert not (tmp_path / "usr/bin/aclocal").is_symlink()
