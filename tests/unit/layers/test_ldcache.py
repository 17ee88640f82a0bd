"""/etc/ld.so.cache over the merged tree."""

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from slipway.errors import BuildFailed, MissingError
from slipway.inspect.untar import TarReader
from slipway.layers import ldcache
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import write_tar

HOST = Path("/sbin/ldconfig")


def merged(tree: Path, *layers: Sequence[Entry]) -> Path:
    tree.mkdir(exist_ok=True)
    for entries in layers:
        buffer = io.BytesIO()
        write_tar(entries, buffer)
        ldcache.merge(TarReader(io.BytesIO(buffer.getvalue()), "layer"), tree)
    return tree


def link(path: str, target: str) -> Entry:
    return Entry(path, "symlink", 0o777, target=target)


def test_only_what_counts_and_the_last_layer_wins(tmp_path: Path) -> None:
    tree = merged(
        tmp_path / "tree",
        [
            link("lib", "usr/lib"),
            file_entry("usr/lib/libx.so.1", b"old"),
            file_entry("usr/lib/x.txt", b""),
            file_entry("etc/ld.so.conf", b"include /etc/ld.so.conf.d/*.conf\n"),
            Entry("usr/lib/liby.so", "hardlink", target="usr/lib/libx.so.1"),
        ],
        [file_entry("usr/lib/libx.so.1", b"new"), link("usr/lib/libx.so", "libx.so.1")],
    )
    assert (tree / "lib/libx.so").read_bytes() == b"new"
    assert (tree / "usr/lib/liby.so").read_bytes() == b"old"
    assert (tree / "etc/ld.so.conf").exists()
    assert not (tree / "usr/lib/x.txt").exists()


def test_no_way_out_of_the_tree(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(BuildFailed, match="leads out"):
        merged(tmp_path / "tree", [link("lib", str(outside))], [file_entry("lib/libx.so", b"evil")])
    assert not list(outside.iterdir())


def test_no_ldconfig(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="no ldconfig"):
        ldcache.run_ldconfig(merged(tmp_path / "tree", [file_entry("usr/lib/libx.so", b"")]))


def test_an_ldconfig_of_another_processor(tmp_path: Path) -> None:
    tree = merged(tmp_path / "tree", [file_entry("usr/sbin/ldconfig", b"\x7fELF of something else", mode=0o755)])
    with pytest.raises(MissingError, match="can't be run on this machine"):
        ldcache.run_ldconfig(tree)


def test_an_ldconfig_that_fails(tmp_path: Path) -> None:
    script = b"#!/bin/sh\necho no such thing; exit 1\n"
    tree = merged(tmp_path / "tree", [file_entry("usr/sbin/ldconfig", script, mode=0o755)])
    with pytest.raises(BuildFailed, match="no such thing"):
        ldcache.run_ldconfig(tree)


def test_key_depends_on_layers_and_their_order() -> None:
    assert len({ldcache.key(["a", "b"]), ldcache.key(["b", "a"]), ldcache.key(["a"])}) == 3


@pytest.mark.skipif(not HOST.exists(), reason="this machine has no ldconfig")
def test_a_real_ldconfig_finds_a_library_of_a_later_layer(tmp_path: Path) -> None:
    library = next((p for p in Path("/lib").glob("*-linux-gnu/libz.so.1")), None)
    if library is None:
        pytest.skip("this machine has no libz.so.1 to try with")
    base = [
        file_entry("usr/sbin/ldconfig", HOST.read_bytes(), mode=0o755),
        file_entry("etc/ld.so.conf", b"include /etc/ld.so.conf.d/*.conf\n"),
    ]
    later = [
        file_entry("opt/x/lib/libz.so.1", library.read_bytes()),
        file_entry("etc/ld.so.conf.d/000_x.conf", b"/opt/x/lib\n"),
    ]
    first = ldcache.run_ldconfig(merged(tmp_path / "a", base, later))
    assert b"/opt/x/lib/libz.so.1\0" in first
    assert str(tmp_path).encode() not in first
    assert ldcache.run_ldconfig(merged(tmp_path / "some other place", base, later)) == first
    shutil.rmtree(tmp_path / "a" / "opt")
    assert b"/opt/x" not in ldcache.run_ldconfig(tmp_path / "a")
