"""The lock file: what is written is what is read, and what is wrong is told with its line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway import lock as locks
from slipway.errors import InvalidInput, UsageError
from slipway.lock import file
from slipway.lock.model import Deb, Lock, Source, Wheel

A, B, C, D = (letter * 64 for letter in "abcd")

LOCK = Lock(
    release="1.0",
    variant="cpu",
    arch="amd64",
    pins=f"sha256:{D}",
    wheels=(
        Wheel("aiohttp", "3.1", "aiohttp-3.1-cp311-cp311-manylinux_2_17_x86_64.whl", 10, A),
        Wheel("vllm", "0.29.0+cpu", "vllm-0.29.0+cpu-py3-none-any.whl", 20, B, made=True),
    ),
    debs=(
        Deb("bash", "5.2-2+b13", "bash_5.2-2+b13_amd64.deb", 30, C, "bookworm", "main",
            "pool/main/b/bash/bash_5.2-2+b13_amd64.deb", "amd64", ("build", "image")),
    ),
    sources=(
        Source("libfabric", "2.1.0", "libfabric_2.1.0.orig.tar.xz", 40, D, "trixie", "main",
               "pool/main/libf/libfabric/libfabric_2.1.0.orig.tar.xz"),
    ),
)  # fmt: skip
TEXT = file.dump(LOCK)


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        file.reads(text, "l.toml")
    return [str(problem) for problem in caught.value.problems]


def edit(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def test_what_is_written_is_what_is_read() -> None:
    assert file.reads(TEXT) == LOCK


def test_every_key_has_a_line_of_its_own_and_the_order_given_does_not_matter() -> None:
    turned = replace(LOCK, wheels=LOCK.wheels[::-1])
    assert file.dump(turned) == TEXT
    assert len(tomllib.loads(TEXT)["wheel"]) == 2
    assert all(re.fullmatch(r"(#.*|\[\[\w+\]\]|\w+ = \S.*|)", line) for line in TEXT.splitlines())


names = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
versions = st.from_regex(r"[1-9]\.[0-9]{1,2}(\+cpu)?", fullmatch=True)
hashes = st.integers(0, 16**64 - 1).map(lambda number: f"{number:064x}")
wheels = st.builds(
    lambda name, version, size, sha256, made: Wheel(
        name, version, f"{name}-{version}-py3-none-any.whl", size, sha256, made
    ),
    names, versions, st.integers(1, 2**40), hashes, st.booleans(),
)  # fmt: skip
debs = st.builds(
    lambda name, version, size, sha256, sets: Deb(
        name, f"1:{version}~x", f"{name}_{version}~x_all.deb", size, sha256, "sid", "main",
        f"pool/main/{name[0]}/{name}_{version}~x_all.deb", "all", tuple(sorted(sets)),
    ),
    names, versions, st.integers(1, 2**40), hashes, st.sets(st.sampled_from(["image", "build"]), min_size=1),
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(wheels, unique_by=lambda wheel: wheel.name, max_size=4),
    st.lists(debs, unique_by=lambda deb: deb.name, max_size=4),
)
def test_any_lock_comes_back(some_wheels: list[Wheel], some_debs: list[Deb]) -> None:
    lock = replace(
        LOCK,
        wheels=tuple(sorted(some_wheels, key=lambda wheel: wheel.name)),
        debs=tuple(sorted(some_debs, key=lambda deb: deb.name)),
    )
    assert file.reads(file.dump(lock)) == lock


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1", "format = 9", "reads format 1"),
        ('arch = "amd64"\npins', "pins", "lacks 'arch'"),
        (f"sha256:{D}", f"sha512:{D}", "must start with 'sha256:'"),
        (f"sha256:{D}", f"sha256:{D[1:]}", "this has 63 characters"),
        (f'sha256 = "{A}"', f'sha256 = "{A[:-1]}g"', "not 'g'"),
        (f'sha256 = "{A}"', f'sha265 = "{A}"', "did you mean 'sha256'?"),
        (f'sha256 = "{A}"', "", "lacks 'sha256'"),
        ("size = 10", "size = 0", "must be at least 1"),
        ("size = 10", "size = 10.0", "must be an integer, not a number"),
        ("made = true", 'made = "yes"', "must be true or false, not a string"),
        ('"aiohttp-3.1-cp', '"aiohttp-3.2-cp', "is not aiohttp 3.1"),
        ('"aiohttp-3.1-cp311-cp311-manylinux_2_17_x86_64.whl"', '"aiohttp-3.1.tar.gz"', "not the file name of a wheel"),
        ('name = "aiohttp"', 'name = "aio"', "is not aio 3.1"),
        ('name = "vllm"', 'name = "aiohttp"', "aiohttp stands in the lock twice"),
        ('name = "aiohttp"', 'name = "zz"', "vllm is out of order, after zz"),
        ('"pool/main/b/bash/bash_5.2-2+b13_amd64.deb"', '"/pool/bash_5.2-2+b13_amd64.deb"', "without the leading '/'"),
        ('"pool/main/b/bash/bash_5.2-2+b13_amd64.deb"', '"../bash_5.2-2+b13_amd64.deb"', "normalised path"),
        ('"pool/main/b/bash/bash_5.2-2+b13_amd64.deb"', '"pool/b.deb"', "does not end in the file's name"),
        ('file = "bash_5.2', 'file = "x/bash_5.2', "without a folder"),
        ('["build", "image"]', '["build", "imag"]', "must name one or more of image, build"),
        ('["build", "image"]', "[]", "must name one or more of image, build"),
        ("[[source]]", "[[sources]]", "did you mean 'source'?"),
        ("[[source]]", "[source]", "must be a list, not a table"),
    ],
)  # fmt: skip
def test_one_mistake_is_told_with_its_line(old: str, new: str, said: str) -> None:
    found = problems(edit(old, new))
    assert any(said in line and re.match(r"l\.toml(:[1-9]|: the file)", line) for line in found), found


def test_all_mistakes_are_told_at_once() -> None:
    text = edit("size = 10", "size = -1").replace("size = 30", "size = -1").replace('"trixie"', '""')
    assert len(problems(text)) == 3


def test_merge_marks_are_told() -> None:
    assert "not TOML" in problems(edit("[[source]]", "<<<<<<< HEAD\n[[source]]"))[0]


def test_a_lock_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="build.py lock"):
        file.read(tmp_path / "no.toml")


@settings(deadline=None)
@given(st.integers(0, len(TEXT.encode()) - 1), st.integers(1, 15))
def test_any_nibble_flipped_is_noticed(at: int, mask: int) -> None:
    raw = bytearray(TEXT.encode())
    raw[at] ^= mask
    body = TEXT.encode().index(b"content = ")
    if at >= body:  # above it stands what other checks cover
        assert not file.is_untouched(raw.decode("utf-8", "replace"))


def test_untouched_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "lock.toml"
    path.write_text(TEXT)
    file.untouched(path)
    path.write_text(edit(f'sha256 = "{A}"', f'sha256 = "b{A[1:]}"'))
    file.read(path)  # well formed: which bytes are right is found out where bytes are
    with pytest.raises(InvalidInput, match=r"lock\.toml:7: .*edited") as caught:
        file.untouched(path)
    assert caught.value.exit_code == 2
    assert TEXT.splitlines()[6].startswith("content = ")
    path.write_text("format = 1\n")
    with pytest.raises(InvalidInput, match="edited"):
        file.untouched(path)


COMMITTED = sorted(locks.FOLDER.glob("*.toml"))


def test_there_are_committed_locks() -> None:
    assert {"2.60-cpu-amd64", "2.60-cuda-amd64", "2.58-cuda-amd64"} <= {path.stem for path in COMMITTED}


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_locks_are_what_the_driver_writes_and_name_no_host(path: Path) -> None:
    lock = file.read(path)
    text = path.read_text()
    assert file.dump(lock) == text
    assert locks.path(lock.release, lock.variant, lock.arch) == path
    assert "://" not in text
    assert all(not wheel.file.endswith((".tar.gz", ".zip")) for wheel in lock.wheels)
    assert {"bash", "wget", "libhwloc15", "libnuma1", "g++", "python3-dev"} <= {d.name for d in lock.debs_for("image")}
    assert {"gcc", "autoconf", "libtool", "librdmacm-dev"} <= {deb.name for deb in lock.debs_for("build")}
    assert {deb.suite for deb in lock.debs} <= {"bookworm", "bookworm-updates", "bookworm-security"}
