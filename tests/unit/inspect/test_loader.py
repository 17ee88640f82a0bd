"""slipway.inspect.loader and ldcache: finds what ld.so would, in its order."""

from __future__ import annotations

from pathlib import Path

import image_builder as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.inspect import ldcache
from slipway.inspect.image import read_image
from slipway.inspect.loader import Loader, configured_folders

LIB = make.elf(soname="libx.so.1")
Members = dict[str, make.Item | bytes | str | None]


def find(
    tmp_path: Path, user: bytes, members: Members, env: str = "", name: str = "libx.so.1"
) -> tuple[str, str] | None:
    config = {"Env": [f"LD_LIBRARY_PATH={env}"]} if env else None
    image = read_image(make.layout(tmp_path, [{"lib": "usr/lib", "app/bin/user": user, **members}], config=config))
    node = image.tree.get("app/bin/user")
    assert node is not None
    found = Loader(image).find(node, name)
    return (found.node.path, found.how) if found else None


PLAIN = make.elf()


def test_default_folders_through_merged_usr(tmp_path: Path) -> None:
    assert find(tmp_path, PLAIN, {"usr/lib/x86_64-linux-gnu/libx.so.1": LIB}) == (
        "usr/lib/x86_64-linux-gnu/libx.so.1", "default folder"
    )  # fmt: skip


def test_a_symlink_is_followed_to_the_file(tmp_path: Path) -> None:
    found = find(tmp_path, PLAIN, {"usr/lib/libx.so.1": "libx.so.1.2.3", "usr/lib/libx.so.1.2.3": LIB})
    assert found == ("usr/lib/libx.so.1.2.3", "default folder")


def test_runpath_with_origin(tmp_path: Path) -> None:
    user = make.elf(runpath="$ORIGIN/../lib")
    assert find(tmp_path, user, {"app/lib/libx.so.1": LIB, "usr/lib/libx.so.1": LIB}) == (
        "app/lib/libx.so.1",
        "runpath",
    )


def test_rpath_comes_before_the_environment_and_runpath_after(tmp_path: Path) -> None:
    members: Members = {"env/libx.so.1": LIB, "own/libx.so.1": LIB}
    assert find(tmp_path / "1", make.elf(rpath="/own"), members, "/env") == ("own/libx.so.1", "rpath")
    assert find(tmp_path / "2", make.elf(runpath="/own"), members, "/env") == ("env/libx.so.1", "LD_LIBRARY_PATH")


def test_rpath_counts_only_without_runpath(tmp_path: Path) -> None:
    assert find(tmp_path, make.elf(rpath="/own", runpath="/none"), {"own/libx.so.1": LIB}) is None


def test_the_cache_decides_where_there_is_one(tmp_path: Path) -> None:
    members: Members = {
        "opt/efa/lib/libx.so.1": LIB,
        "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/efa.conf": b"/opt/efa/lib\n",
    }
    assert find(tmp_path / "1", PLAIN, members) == ("opt/efa/lib/libx.so.1", "ld.so.conf")
    cache = make.ld_cache({"libx.so.1": "/opt/efa/lib/libx.so.1"})
    assert find(tmp_path / "2", PLAIN, {**members, "etc/ld.so.cache": cache}) == (
        "opt/efa/lib/libx.so.1",
        "ld.so.cache",
    )
    assert find(tmp_path / "3", PLAIN, {**members, "etc/ld.so.cache": make.ld_cache({})}) is None


def test_nodefaultlib(tmp_path: Path) -> None:
    members: Members = {
        "usr/lib/libx.so.1": LIB,
        "etc/ld.so.cache": make.ld_cache({"libx.so.1": "/usr/lib/libx.so.1"}),
    }
    assert find(tmp_path, make.elf(flags_1=0x800), members) is None


def test_other_processors_are_passed_over(tmp_path: Path) -> None:
    members: Members = {"a/libx.so.1": make.elf(machine=183), "b/libx.so.1": make.elf(bits=32), "c/libx.so.1": LIB}
    assert find(tmp_path, make.elf(runpath="/a:/b:/c"), members) == ("c/libx.so.1", "runpath")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find(tmp_path, PLAIN, {"own/libx.so.1": LIB}, name="/own/libx.so.1") == ("own/libx.so.1", "path")


def test_ld_so_conf(tmp_path: Path) -> None:
    files: Members = {
        "etc/ld.so.conf": b"# comment\n/first # more\ninclude ld.so.conf.d/*.conf\nhwcap 0 x\n/last\n",
        "etc/ld.so.conf.d/b.conf": b"/b\n/first\n",
        "etc/ld.so.conf.d/a.conf": b"/a=libc6\ninclude /etc/ld.so.conf\n",
        "etc/ld.so.conf.d/off.conf.dpkg-old": b"/never\n",
    }
    folders = configured_folders(read_image(make.layout(tmp_path, [files])))
    assert [folder for folder in folders if folder in ("first", "a", "b", "last", "never")] == [
        "first",
        "a",
        "last",
        "b",
    ]


def test_cache_entries() -> None:
    data = make.ld_cache({"libz.so.1": "/lib/libz.so.1", "liba.so": "/opt/liba.so"})
    assert ldcache.parse(data) == [
        ldcache.CacheEntry("libz.so.1", "/lib/libz.so.1", True),
        ldcache.CacheEntry("liba.so", "/opt/liba.so", True),
    ]


def test_the_old_table_is_skipped() -> None:
    new = make.ld_cache({"libz.so.1": "/lib/libz.so.1"})
    old = b"ld.so-1.7.0\0" + (3).to_bytes(4, "little") + bytes(36)
    old += bytes(-len(old) % 8)
    # Offsets of strings count from the beginning of the newer table.
    assert ldcache.parse(old + new) == ldcache.parse(new)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_caches_are_refused(junk: bytes, keep: int) -> None:
    data = make.ld_cache({"libz.so.1": "/lib/libz.so.1"})[:keep] + junk
    try:
        ldcache.parse(data)
    except ValueError:
        return


def test_a_cut_cache_is_refused() -> None:
    data = make.ld_cache({"libz.so.1": "/lib/libz.so.1"})
    for length in range(len(data)):
        with pytest.raises(ValueError, match="it "):
            ldcache.parse(data[:length])
