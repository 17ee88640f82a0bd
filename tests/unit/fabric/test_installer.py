"""The EFA installer as a source of the fabric layer, with a stand-in tarball of its layout (standin.py)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from slipway import pins
from slipway.errors import BuildFailed, WrongArtifact
from slipway.fabric import effects, installer, packages
from slipway.layers.cache import LayerCache
from slipway.layers.entry import Entry
from slipway.lock.model import EfaInstaller, Lock
from slipway.pins.model import Installer, Selection
from slipway.sandbox.workshop import Bench
from slipway.store.store import Store, hash_file
from tests.unit.fabric.standin import WHY, package, tarball
from tests.unit.fabric.test_layer import link

ROOT = Path(__file__).parents[3]
PINNED = Installer("1.49.0", "aws-efa-installer-1.49.0.tar.gz", "0" * 64, stand_in=WHY)
SELECTION = replace(
    pins.load(ROOT / "versions.toml").select("2.60", "cuda", "amd64"), fabric="installer", installer=PINNED
)
LIBRARIES = "./usr/lib/x86_64-linux-gnu"
POSTINST = """#!/bin/sh
set -e
# ldconfig in a comment is none
if [ "$1" = configure ]; then
    ldconfig
    udevadm control --reload-rules || true
    echo '* soft memlock unlimited' > /etc/security/limits.d/01_efa.conf
    frobnicate --all
fi
exit 0
"""
FABRIC = {
    "./opt/amazon/efa/lib/libfabric.so.1.32.0": b"\x7fELF fabric",
    "./opt/amazon/efa/lib/libfabric.so.1": link("./opt/amazon/efa/lib/libfabric.so.1", "libfabric.so.1.32.0"),
    "./etc/ld.so.conf.d/efa.conf": b"/opt/amazon/efa/lib\n",
    "./opt/amazon/efa/share/man/man7/fabric.7": b"man",
    "./usr/share/doc/libfabric1-aws/copyright": b"BSD",
    "./usr/share/doc/libfabric1-aws/changelog.gz": b"old",
}
DEBS = {
    "libfabric1-aws_2.4.0amzn5.0_amd64.deb": package("libfabric1-aws", FABRIC, {"postinst": POSTINST}),
    "libnccl-ofi_1.19.0-1_amd64.deb": package(
        "libnccl-ofi", {"./opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so": b"\x7fELF nccl"}
    ),
    "openmpi40-aws_4.1.7-1_amd64.deb": package("openmpi40-aws", {"./opt/amazon/openmpi/bin/mpirun": b"#!"}),
    "new-thing_1_all.deb": package("new-thing", {"./usr/bin/thing": b"#!"}, arch="all"),
    "rdma-core/libibverbs1_61.0-1_amd64.deb": package(
        "libibverbs1",
        {f"{LIBRARIES}/libibverbs.so.1": b"\x7fELF verbs", "./lib/udev/rules.d/x.rules": b"rule"},
        {"triggers": "activate-noawait ldconfig\n"},
    ),
    "rdma-core/ibverbs-providers_61.0-1_amd64.deb": package(
        "ibverbs-providers",
        {"./lib/x86_64-linux-gnu/libefa.so.1": b"\x7fELF efa", "./etc/libibverbs.d/efa.driver": b"d"},
    ),
    "efa-driver/efa_3.0.0-1_amd64.deb": package("efa", {"./usr/src/efa/dkms.conf": b"x"}, {"postinst": "dkms install"}),
}


def bench(folder: Path, debs: Mapping[str, bytes] = DEBS, **how: str) -> tuple[Lock, Bench]:
    file = tarball(folder / PINNED.file, debs, **how)
    store = Store(folder / "store")
    store.add_file(file)
    locked = EfaInstaller("aws-efa-installer", "1.49.0", file.name, file.stat().st_size, hash_file(file))
    return Lock("2.60", "cuda", "amd64", "sha256:0", installers=(locked,)), Bench(store, LayerCache(folder / "cache"))


def layer(
    folder: Path, debs: Mapping[str, bytes] = DEBS, selection: Selection = SELECTION, **how: str
) -> dict[str, Entry]:
    from slipway.debian.rootfs import Spool

    lock, place = bench(folder, debs, **how)
    with (folder / "spool").open("w+b") as spool:
        found = installer.read(place.store.path(lock.installers[0].sha256), selection, Spool(spool))
        entries = {entry.path: entry for entry in installer.finished(found, lock.installers[0], selection)}
        contents = {path: b"".join(entry.read()) for path, entry in entries.items() if entry.read is not None}
    return {
        path: replace(entry, read=lambda path=path: iter((contents[path],))) if path in contents else entry
        for path, entry in entries.items()
    }


def text(entry: Entry) -> str:
    assert entry.read is not None
    return b"".join(entry.read()).decode()


def test_what_is_taken_and_where_it_goes(tmp_path: Path) -> None:
    entries = layer(tmp_path)
    assert {path for path in entries if not path.startswith("opt/slipway")} == {
        "opt/amazon/efa/lib/libfabric.so.1",
        "opt/amazon/efa/lib/libfabric.so.1.32.0",
        "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so",
        "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
        "usr/lib/x86_64-linux-gnu/libefa.so.1",  # from lib/, which is a link in the image
        "etc/libibverbs.d/efa.driver",
        "usr/share/doc/libfabric1-aws/copyright",
        "etc/ld.so.conf.d/000_efa.conf",
    }
    assert text(entries[installer.LOADER]) == "/opt/amazon/efa/lib\n/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu\n"
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}


def test_the_bill_says_what_was_left_out_and_where_each_effect_went(tmp_path: Path) -> None:
    bill = json.loads(text(layer(tmp_path)[installer.BILL]))
    assert bill["installer"]["stand_in"] == WHY
    taken = {package["package"]: package for package in bill["taken"]}
    assert set(taken) == {"libfabric1-aws", "libnccl-ofi", "libibverbs1", "ibverbs-providers"}
    assert taken["libfabric1-aws"]["purl"] == "pkg:deb/aws/libfabric1-aws@1.0-1?arch=amd64"
    assert [(effect["command"].split()[0], effect["went"]) for effect in taken["libfabric1-aws"]["effects"]] == [
        ("ldconfig", effects.WENT["ldconfig"]),
        ("udevadm", effects.WENT["udevadm"]),
        ("echo", effects.WENT["limits"]),
        ("frobnicate", effects.UNKNOWN),
    ]
    assert [effect["went"] for effect in taken["libibverbs1"]["effects"]] == [effects.WENT["ldconfig"]]
    left = {package["package"]: package["reason"] for package in bill["left_out"]}
    assert left == {
        "openmpi40-aws": packages.LEFT_OUT["openmpi*"],
        "new-thing": packages.UNKNOWN,
        "efa": packages.LEFT_OUT["efa"],
    }


def test_the_layer_is_made_once_and_keeps_what_an_sbom_needs(tmp_path: Path) -> None:
    lock, place = bench(tmp_path)
    first = installer.build(lock, SELECTION, place)
    assert first.key == installer.key(lock, SELECTION)
    assert [package["package"] for package in first.notes["packages"]] == [
        *("ibverbs-providers", "libfabric1-aws", "libibverbs1", "libnccl-ofi")
    ]
    again = Bench(place.store, LayerCache(tmp_path / "other"))
    assert installer.build(lock, SELECTION, again).blob == first.blob


def test_a_stand_in_must_be_pinned_as_one(tmp_path: Path) -> None:
    lock, place = bench(tmp_path)
    real = replace(SELECTION, installer=replace(PINNED, stand_in=""))
    with pytest.raises(BuildFailed, match=r"is a stand-in(.|\n)*nothing of Amazon's"):
        installer.build(lock, real, place)
    assert (real.fabric_label, SELECTION.fabric_label) == ("installer", "stand-in")
    assert installer.key(lock, real) != installer.key(lock, SELECTION)


def test_one_without_this_system_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"has no ibverbs-providers, (.|\n)*DEBIAN11/x86_64, UBUNTU2204/x86_64"):
        layer(tmp_path, system="DEBIAN11")


def test_two_packages_with_one_path_are_refused(tmp_path: Path) -> None:
    twice = {**DEBS, "x.deb": package("ibverbs-utils", {"./etc/libibverbs.d/efa.driver": b"other"})}
    with pytest.raises(BuildFailed, match="both bring /etc/libibverbs.d/efa.driver"):
        layer(tmp_path, twice)


@pytest.mark.parametrize("damage", [b"\x1f\x8b\x08\x00rest", b"no gzip", b""])
def test_damage_is_told(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "x.tar.gz").write_bytes(damage)
    from slipway.debian.rootfs import Spool

    with (tmp_path / "spool").open("w+b") as spool, pytest.raises((WrongArtifact, BuildFailed)):
        installer.read(tmp_path / "x.tar.gz", SELECTION, Spool(spool))


def test_every_taken_package_has_a_reason_and_mpi_stays_out() -> None:
    assert set(packages.REQUIRED) <= set(packages.TAKEN)
    for name in ("openmpi50-aws", "prrte-aws", "libpmix-aws", "rdma-core", "efa-config", "libibverbs-dev"):
        assert not packages.choose(name).taken
        assert packages.choose(name).known


def test_a_script_of_syntax_alone_has_no_effect() -> None:
    script = '#!/bin/sh\nset -e\ncase "$1" in\n  configure) true ;;\nesac\nif [ -x /x ]; then :; fi\nexit 0\n'
    assert effects.effects([("postinst", script)]) == []
