"""The EFA installer in a lock: its size from the pin, the lock before or a place that has it; where fetch looks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slipway.errors import MissingError, UsageError
from slipway.lock import file
from slipway.lock.check import differences
from slipway.lock.installer import resolve_installer
from slipway.lock.model import EfaInstaller, Lock
from slipway.pins import load
from slipway.pins.model import Installer, Sources
from slipway.sources.mirrors import Mirrors, parse_mirrors
from slipway.store import Store
from slipway.store.fetch import FetchOptions, fetch
from slipway.store.store import hash_file

ROOT = Path(__file__).resolve().parents[3]
NAME = "aws-efa-installer-1.49.0.tar.gz"
PIN = Installer("1.49.0", NAME, "a" * 64, 7)
SOURCE = load(ROOT / "versions.toml").select("2.60", "cuda")
CHOSEN = replace(SOURCE, fabric="installer", installer=PIN, sources=Sources())


def test_who_compiles_locks_no_installer() -> None:
    assert resolve_installer(SOURCE, (), Mirrors()) == ()


def test_the_size_is_the_pins_or_the_old_locks() -> None:
    (locked,) = resolve_installer(CHOSEN, (), Mirrors())
    assert locked == EfaInstaller("aws-efa-installer", "1.49.0", NAME, 7, "a" * 64)
    unknown = replace(CHOSEN, installer=replace(PIN, size=0))
    assert resolve_installer(unknown, (locked,), Mirrors()) == (locked,)


def test_a_place_that_has_the_file_says_its_size(tmp_path: Path) -> None:
    unknown = replace(CHOSEN, installer=replace(PIN, size=0))
    with pytest.raises(MissingError, match=r"size of aws-efa-installer-1\.49\.0\.tar\.gz is not known"):
        resolve_installer(unknown, (), Mirrors(efa=(str(tmp_path),)))
    (tmp_path / NAME).write_bytes(b"12345")
    assert resolve_installer(unknown, (), Mirrors(efa=(str(tmp_path),)))[0].size == 5


def test_a_lock_keeps_it_and_notices_another_pin() -> None:
    lock = Lock("2.60", "cuda", "amd64", CHOSEN.checksum, installers=resolve_installer(CHOSEN, (), Mirrors()))
    assert file.reads(file.dump(lock)) == lock
    assert not any("EFA" in what for what, _ in differences(CHOSEN, lock))
    other = replace(CHOSEN, installer=replace(PIN, sha256="b" * 64))
    assert any("the EFA installer is pinned to" in what for what, _ in differences(other, lock))


def test_the_two_fabrics_are_one_pin_apart() -> None:
    text = (ROOT / "versions.toml").read_text()
    where = text.index('[releases."2.60".variants.cuda]')
    flipped = text[:where] + text[where:].replace('fabric = "source"', 'fabric = "installer"', 1)
    from slipway.pins import loads

    chosen = loads(flipped).select("2.60", "cuda")
    assert (chosen.fabric_label, SOURCE.fabric_label) == ("installer", "source")
    assert "libibverbs1" in SOURCE.debs["image"]
    assert "libibverbs1" not in chosen.debs["image"]
    assert "libnl-3-200" in chosen.debs["image"]
    assert "build" not in chosen.debs
    assert chosen.checksum != SOURCE.checksum


def locked(path: Path) -> Lock:
    installer = EfaInstaller("aws-efa-installer", "1.49.0", NAME, path.stat().st_size, hash_file(path))
    return Lock("2.60", "cuda", "amd64", "sha256:0", installers=(installer,))


@pytest.mark.parametrize("how", ["from", "mirror"])
def test_fetch_brings_it_from_a_folder(tmp_path: Path, how: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / NAME).write_bytes(b"tarball")
    options = FetchOptions(folders=(place,)) if how == "from" else FetchOptions(mirrors=Mirrors(efa=(str(place),)))
    store = Store(tmp_path / "store")
    lock = locked(place / NAME)
    assert fetch(lock, store, options).fetched == 1
    assert store.checked(lock.installers[0]).read_bytes() == b"tarball"


def test_one_that_can_not_be_had_is_exit_3_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"tarball")
    (tmp_path / "empty").mkdir()
    for options in (FetchOptions(), FetchOptions(mirrors=Mirrors(efa=(str(tmp_path / "empty"),)))):
        with pytest.raises(MissingError, match=r"--from DIR(.|\n)*fabric = .source.") as caught:
            fetch(locked(tmp_path / NAME), Store(tmp_path / "store"), options)
        assert caught.value.exit_code == 3


def test_other_bytes_under_its_name_are_exit_4(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"tarball")
    lock = locked(tmp_path / NAME)
    (tmp_path / NAME).write_bytes(b"changed")
    with pytest.raises(Exception, match="another file stands under its name") as caught:
        fetch(lock, Store(tmp_path / "store"), FetchOptions(folders=(tmp_path,)))
    assert getattr(caught.value, "exit_code", 0) == 4


def test_the_mirror_is_a_kind_of_its_own() -> None:
    assert parse_mirrors(["efa=http://mirror.example/efa"], {}).efa == ("http://mirror.example/efa",)
    with pytest.raises(UsageError, match="no kind of source"):
        parse_mirrors(["installer=http://mirror.example"], {})
