"""slipway.inspect.untar: reads what Python's, GNU's and our own writers write, and refuses the rest by name."""

from __future__ import annotations

import contextlib
import io
import tarfile

import image_builder as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.errors import WrongArtifact
from slipway.inspect.untar import TarReader
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import write_tar


class Dribble:
    """Gives few bytes at a time, as a decompressor may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file = io.BytesIO(data)
        self._step = step

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, self._step))


def read(data: bytes, step: int = 1 << 20) -> dict[str, tuple[str, int, bytes, str]]:
    reader = TarReader(Dribble(data, step), "layer.tar")
    return {m.path: (m.kind, m.mode, b"".join(reader.content()), m.target) for m in reader}


LONG = "/".join(["directory-with-a-rather-long-name"] * 8) + "/file"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("step", [1, 511, 513, 1 << 20])
def test_members_of_pythons_tars(form: int, step: int) -> None:
    data = make.tar(
        {"./usr/": None, LONG: b"x" * 1000, "lib": "usr/lib", "long": LONG, "name-\u00e9": b"", "./a/./b": b"1"},
        format=form,
    )
    assert read(data, step) == {
        "usr": ("directory", 0o755, b"", ""),
        LONG: ("file", 0o644, b"x" * 1000, ""),
        "lib": ("symlink", 0o777, b"", "usr/lib"),
        "long": ("symlink", 0o777, b"", LONG),
        "name-\u00e9": ("file", 0o644, b"", ""),
        "a/b": ("file", 0o644, b"1", ""),
    }


def test_members_of_our_own_tars() -> None:
    out = io.BytesIO()
    entries = [file_entry(LONG, b"abc", mode=0o755), Entry("link", "symlink", 0o777, target=LONG)]
    entries.append(Entry("cap", "file", 0o755, 0, None, uid=5_000_000, xattrs={"security.capability": b"\1\n=\0"}))
    write_tar(entries, out)
    members = {m.path: m for m in TarReader(io.BytesIO(out.getvalue()), "x")}
    assert members[LONG].mode == 0o755
    assert members["link"].target == LONG
    assert members["cap"].xattrs == {"security.capability": b"\1\n=\0"}
    assert members["cap"].uid == 5_000_000


def test_root_and_hard_links() -> None:
    data = make.tar({"./": None, "a": b"1", "b": make.Item(target="./a", hard=True)})
    assert read(data) == {
        "": ("directory", 0o755, b"", ""),
        "a": ("file", 0o644, b"1", ""),
        "b": ("hardlink", 0o777, b"", "a"),
    }


def test_big_numbers_of_gnu_tar() -> None:
    data = make.tar({"a": make.Item(b"1", uid=1 << 30)}, format=tarfile.GNU_FORMAT)
    assert [m.uid for m in TarReader(io.BytesIO(data), "x")] == [1 << 30]


@pytest.mark.parametrize("path", ["../evil", "a/../../evil", "a/.."])
def test_paths_out_of_the_image_are_refused(path: str) -> None:
    with pytest.raises(WrongArtifact, match="no readable tar") as caught:
        read(make.tar({path: b"1"}))
    assert "layer.tar" in str(caught.value)


def test_sparse_members_are_refused() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        archive.addfile(info)
    with pytest.raises(WrongArtifact, match="no readable tar"):
        read(out.getvalue())


WHOLE = make.tar({"usr": None, "usr/a": b"x" * 3000, LONG: b"y" * 600, "b": "a"})


@given(st.integers(1, 1600 * 2))
@settings(deadline=None)
def test_truncated_tars_are_refused_or_end_between_members(length: int) -> None:
    try:
        got = read(WHOLE[:length])
    except WrongArtifact as error:
        assert "layer.tar" in str(error)
    else:
        assert set(got) < {"usr", "usr/a", LONG, "b"}


@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=16))
@settings(deadline=None)
def test_damage_never_crashes(offset: int, junk: bytes) -> None:
    with contextlib.suppress(WrongArtifact):
        read(WHOLE[:offset] + junk + WHOLE[offset + len(junk) :])


@given(st.binary(max_size=2000))
def test_garbage_never_crashes(junk: bytes) -> None:
    with contextlib.suppress(WrongArtifact):
        read(junk)
