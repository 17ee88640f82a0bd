"""slipway.inspect.elf: what is written comes back, and no garbage gets further than an error with the file's name."""

from __future__ import annotations

import image_builder as make
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.inspect.elf import Elf, ElfError, parse

RICH = make.elf(
    soname="libplugin.so.1",
    needed=["libfabric.so.1", "libc.so.6"],
    runpath="$ORIGIN/..:/opt/amazon/efa/lib",
    needs={"libfabric.so.1": ["FABRIC_1.0", "FABRIC_1.10"], "libc.so.6": ["GLIBC_2.36", "GLIBC_2.99"]},
    weak=["GLIBC_2.99"],
    defines=["PLUGIN_1", "PLUGIN_2"],
    build_id=bytes(range(20)),
    interpreter="/lib64/ld-linux-x86-64.so.2",
    flags_1=0x800,
)


def test_everything_comes_back() -> None:
    assert parse(RICH, "x") == Elf(
        kind=3,
        machine="amd64",
        bits=64,
        little=True,
        interpreter="/lib64/ld-linux-x86-64.so.2",
        soname="libplugin.so.1",
        needed=("libfabric.so.1", "libc.so.6"),
        runpath=("$ORIGIN/..", "/opt/amazon/efa/lib"),
        needs=(("libfabric.so.1", ("FABRIC_1.0", "FABRIC_1.10")), ("libc.so.6", ("GLIBC_2.36",))),
        defines=("PLUGIN_1", "PLUGIN_2"),
        build_id=bytes(range(20)).hex(),
        no_default=True,
        dynamic=True,
    )


NAMES = st.text("abcxyz_.0123456789", min_size=1, max_size=20)


@given(
    soname=NAMES,
    needed=st.lists(NAMES, max_size=5),
    needs=st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=4), max_size=4),
    defines=st.lists(NAMES, max_size=5),
    rpath=st.lists(NAMES, min_size=1, max_size=3),
    bits=st.sampled_from([32, 64]),
    little=st.booleans(),
)
def test_round_trip(
    soname: str, needed: list[str], needs: dict[str, list[str]], defines: list[str], rpath: list[str], bits: int,
    little: bool,
) -> None:  # fmt: skip
    data = make.elf(
        soname=soname, needed=needed, needs=needs, defines=defines, rpath=":".join(rpath), bits=bits, little=little
    )
    facts = parse(data, "x")
    assert (facts.soname, facts.bits, facts.little) == (soname, bits, little)
    assert facts.needed == tuple(needed)
    assert facts.needs == tuple((name, tuple(versions)) for name, versions in needs.items())
    assert facts.defines == tuple(defines)
    assert facts.rpath == tuple(rpath)


@given(st.integers(0, len(RICH) - 1))
def test_truncated_files_are_refused_by_name(length: int) -> None:
    with pytest.raises(ElfError, match=r"^usr/lib/x\.so: "):
        parse(RICH[:length], "usr/lib/x.so")


@given(st.integers(4, len(RICH) - 1), st.binary(min_size=1, max_size=8))
def test_damage_gives_facts_or_an_error(offset: int, junk: bytes) -> None:
    damaged = RICH[:offset] + junk + RICH[offset + len(junk) :]
    try:
        facts = parse(damaged, "x")
    except ElfError as error:
        assert str(error).startswith("x: ")
    else:
        assert isinstance(facts, Elf)


@given(st.binary(max_size=300))
def test_garbage_after_the_magic_number(junk: bytes) -> None:
    try:
        parse(b"\x7fELF" + junk, "x")
    except ElfError as error:
        assert "x: " in str(error)


def test_endless_chain_of_version_references_ends() -> None:
    # Every reference says that the next one is itself, further on: the file's end stops it.
    data = make.elf(needed=["a"], needs={"a": ["V1"], "b": ["V2"]}, padding=64)
    assert len(parse(data, "x").needs) == 2


def test_an_empty_list_of_folders_is_none() -> None:
    data = bytearray(make.elf(runpath="x"))
    data[data.index(b"\0x\0") + 1] = 0
    assert parse(bytes(data), "x").runpath == ()
    assert parse(make.elf(runpath="a:"), "x").runpath == ("a", "")


def test_device_code_is_not_the_processors() -> None:
    assert not parse(make.elf(machine=190), "kernel.cubin").for_host
    assert parse(make.elf(machine=183), "x").machine == "arm64"
    assert parse(make.elf(machine=9999), "x").machine == "machine-9999"


def test_object_file_without_segments() -> None:
    data = bytearray(make.elf(kind=1))
    data[56:58] = b"\0\0"  # no program headers
    facts = parse(bytes(data), "x.o")
    assert not facts.dynamic
    assert facts.needed == ()
