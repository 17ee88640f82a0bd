"""Tar bytes: whatever entries go in, Python's tarfile reads the same back, and nothing can leave the tree."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import MTIME, check_path, complete, header, write_tar

PART = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda part: part not in (".", "..") and not part.startswith(".wh.")
)
PATH = st.lists(PART, min_size=1, max_size=6).map("/".join)
XATTRS = st.dictionaries(st.sampled_from(["security.capability", "user.a"]), st.binary(max_size=40), max_size=2)


def packed(entries: list[Entry]) -> bytes:
    sink = io.BytesIO()
    write_tar(entries, sink)
    return sink.getvalue()


def read(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getmembers()


@st.composite
def trees(draw: st.DrawFn) -> list[Entry]:
    """Entries of a tree in which nothing lies below a file."""
    entries: dict[str, Entry] = {}
    for path in draw(st.lists(PATH, max_size=8)):
        parents = {path[:place] for place, letter in enumerate(path) if letter == "/"}
        if any(entries[p].kind != "directory" for p in parents if p in entries) or any(
            other.startswith(path + "/") for other in entries
        ):
            continue
        kind = draw(st.sampled_from(["file", "directory", "symlink"]))
        mode = draw(st.integers(0, 0o7777))
        uid, gid = draw(st.integers(0, 2**31)), draw(st.integers(0, 2**22))
        if kind == "file":
            content = draw(st.binary(max_size=1500))
            entries[path] = Entry(
                path, "file", mode, len(content), lambda c=content: iter((c,)), "", uid, gid, draw(XATTRS)
            )
        elif kind == "directory":
            entries[path] = Entry(path, "directory", mode, uid=uid, gid=gid)
        else:
            entries[path] = Entry(path, "symlink", mode, target=draw(PATH), uid=uid, gid=gid)
    return list(entries.values())


@settings(max_examples=60, deadline=None)
@given(trees())
def test_tarfile_reads_back_what_was_written(entries: list[Entry]) -> None:
    data = packed(entries)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {member.name: member for member in archive.getmembers()}
        for entry in entries:
            member = found[entry.path]
            assert (member.mode, member.uid, member.gid, member.mtime) == (entry.mode, entry.uid, entry.gid, MTIME)
            assert (member.uname, member.gname) == ("", "")
            if entry.read is not None:
                content = archive.extractfile(member)
                assert content is not None and content.read() == b"".join(entry.read())
            assert (member.issym(), member.isdir()) == (entry.kind == "symlink", entry.kind == "directory")
            assert member.linkname == entry.target
        assert len(found) == len(archive.getmembers())
    parents = {path[:place] for path in found for place, letter in enumerate(path) if letter == "/"}
    assert parents <= found.keys()


@settings(max_examples=25, deadline=None)
@given(trees(), st.randoms(use_true_random=False))
def test_order_of_entries_does_not_matter(entries: list[Entry], source: random.Random) -> None:
    shuffled = entries[:]
    source.shuffle(shuffled)
    assert packed(entries) == packed(shuffled)


def test_parents_are_written_once_before_their_content() -> None:
    data = packed([file_entry("a/b/c", b""), file_entry("a/b-d", b""), file_entry("a/b/a", b"")])
    assert [(m.name, m.mode, m.uid) for m in read(data) if m.isdir()] == [("a", 0o755, 0), ("a/b", 0o755, 0)]
    assert [m.name for m in read(data)] == ["a", "a/b", "a/b/a", "a/b/c", "a/b-d"]


def test_a_listed_directory_keeps_its_mode() -> None:
    data = packed([file_entry("a/b", b""), Entry("a", "directory", 0o700, uid=1000)])
    assert [(m.name, m.mode, m.uid) for m in read(data)][0] == ("a", 0o700, 1000)


def test_big_sizes_and_long_names_need_pax() -> None:
    head = header(Entry("x", "file", size=8**11))
    with tarfile.open(fileobj=io.BytesIO(head + bytes(1024))) as archive:
        member = archive.next()
        assert member is not None and (member.name, member.size) == ("x", 8**11)
    assert header(Entry("x" * 100))[:100] == b"x" * 100
    assert len(header(Entry("x" * 100))) == 512
    assert len(header(Entry("x" * 101))) == 512 * 3


def test_known_bytes() -> None:
    """The format is FORMAT's: a change here needs a higher number there."""
    link = Entry("l", "symlink", 0o777, target="a/ü", xattrs={"user.a": b"1"})
    data = packed([file_entry("a/ü", b"x", mode=0o755), link])
    assert hashlib.sha256(data).hexdigest() == "7a37fe6cb8e6c92c88472407fbda31ccef3a86e9baaa0ac9e7b6ee7ae432f609"


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\0b", ".wh.a", "a/.wh..wh..opq", "a/\n/.."],
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(BuildFailed):
        check_path(path)
    with pytest.raises(BuildFailed):
        complete([file_entry("good", b""), file_entry(path, b""), file_entry("also/good", b"")])


@pytest.mark.parametrize("path", ["a", "a/b", "...", "..a/b..", "a\\x2db", "a b", "x.wh.y", "\n"])
def test_paths_that_are_taken(path: str) -> None:
    check_path(path)
    assert path in [entry.path for entry in complete([file_entry(path, b"")])]


def test_whiteouts_are_only_whiteouts() -> None:
    check_path("a/.wh.b", kind="whiteout")
    with pytest.raises(BuildFailed):
        check_path("a/b", kind="whiteout")


@pytest.mark.parametrize("kind", ["file", "symlink", "hardlink"])
def test_nothing_lies_below_a_file(kind: str) -> None:
    with pytest.raises(BuildFailed, match=f"which is a {kind}"):
        complete([Entry("a/b", kind, target="x", origin="one"), file_entry("a/b/c/d", b"", origin="two")])  # type: ignore[arg-type]


def test_a_path_comes_once() -> None:
    with pytest.raises(BuildFailed, match="comes twice") as caught:
        complete([file_entry("a", b"1", origin="one"), file_entry("a", b"1", origin="two")])
    assert "one" in str(caught.value) and "two" in str(caught.value)


@pytest.mark.parametrize("size", [0, 5, 1024])
def test_content_of_another_size(size: int) -> None:
    with pytest.raises(BuildFailed, match="announced"):
        packed([Entry("a", "file", size=size, read=lambda: iter((b"123",)))])
