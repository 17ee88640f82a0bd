"""From a tar to entries, and hard links that survive dropping."""

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.debian.rootfs import Spool, read_rootfs, relink
from slipway.errors import BuildFailed, WrongArtifact
from slipway.layers.entry import Entry, file_entry
from slipway.layers.tar import write_tar
from tests.unit.debian.debs import tar


def special(name: str, kind: bytes, target: str = "", **pax: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o4755
    info.pax_headers = pax
    return info


def content(entry: Entry) -> bytes:
    assert entry.read is not None
    return b"".join(entry.read())


def test_members(tmp_path: Path) -> None:
    data = tar(
        {
            "./": special("./", tarfile.DIRTYPE),
            "./dev/null": special("./dev/null", tarfile.CHRTYPE),
            "./run/initctl": special("./run/initctl", tarfile.FIFOTYPE),
            "./usr/bin/a": b"aaaa",
            "./usr/bin/b": b"",
            "./bin": special("./bin", tarfile.SYMTYPE, "usr/bin"),
            "./usr/bin/c": special("./usr/bin/c", tarfile.LNKTYPE, "./usr/bin/a"),
        }
    )
    with (tmp_path / "spool").open("w+b") as file:
        entries = {entry.path: entry for entry in read_rootfs(io.BytesIO(data), Spool(file), "x")}
        assert sorted(entries) == ["bin", "usr/bin/a", "usr/bin/b", "usr/bin/c"]
        assert content(entries["usr/bin/a"]) == content(entries["usr/bin/a"]) == b"aaaa"
        assert content(entries["usr/bin/b"]) == b""
        assert (entries["usr/bin/c"].kind, entries["usr/bin/c"].target) == ("hardlink", "usr/bin/a")
        assert entries["bin"].target == "usr/bin"


def test_xattrs_are_kept(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("./usr/bin/ping")
        info.pax_headers = {"SCHILY.xattr.security.capability": "\x01\x02"}
        archive.addfile(info)
    with (tmp_path / "spool").open("w+b") as file:
        (entry,) = read_rootfs(io.BytesIO(buffer.getvalue()), Spool(file), "x")
    assert entry.xattrs == {"security.capability": b"\x01\x02"}


def test_a_cut_tar_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "spool").open("w+b") as file, pytest.raises(WrongArtifact):
        read_rootfs(io.BytesIO(tar({"./a": b"x" * 600})[:700]), Spool(file), "x")


def link(path: str, target: str) -> Entry:
    return Entry(path, "hardlink", target=target)


def test_a_link_to_a_dropped_file_becomes_the_file() -> None:
    target = "usr/share/doc/x"
    everything = [file_entry(target, b"1"), link("usr/lib/b", target), link("usr/lib/a", target)]
    first, second = sorted(relink(everything[1:], everything), key=lambda entry: entry.path)
    assert (first.path, first.kind, content(first)) == ("usr/lib/a", "file", b"1")
    assert (second.path, second.kind, second.target) == ("usr/lib/b", "hardlink", "usr/lib/a")


def test_a_link_to_nothing_is_refused() -> None:
    with pytest.raises(BuildFailed, match="which is no file"):
        relink([link("a", "b")], [link("a", "b")])


@settings(deadline=None)
@given(
    st.sets(st.text("ab/c", min_size=1, max_size=4).map(lambda t: "/".join(p for p in t.split("/") if p)), min_size=2),
    st.data(),
)
def test_every_group_of_links_can_be_unpacked(paths: set[str], data: st.DataObject) -> None:
    paths = {path for path in paths if path and not any(other.startswith(path + "/") for other in paths)}
    if not paths:
        return
    target = data.draw(st.sampled_from(sorted(paths)))
    everything = [file_entry(target, b"shared"), *(link(path, target) for path in sorted(paths - {target}))]
    kept = data.draw(st.lists(st.sampled_from(everything), unique_by=lambda entry: entry.path, min_size=1))
    buffer = io.BytesIO()
    write_tar(relink(kept, everything), buffer)
    seen: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as archive:
        for member in archive:
            if member.islnk():
                assert member.linkname in seen
            if member.isfile():
                assert member.size == 6
            seen.add(member.name)
    assert {entry.path for entry in kept} <= seen
