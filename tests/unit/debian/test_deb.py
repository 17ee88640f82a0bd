"""Reading .debs: every compression, and every way of being damaged."""

import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.debian import deb
from slipway.errors import WrongArtifact
from slipway.host.process import which
from tests.unit.debian.debs import ar, deb_bytes, pack, tar


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".zst", ""])
def test_control_and_content(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(deb_bytes("a", {"./usr/share/a": b"x" * 3000}, suffix=suffix))
    assert deb.control(path) == "Package: a\nVersion: 1-1\nArchitecture: amd64\nDescription: a\n for tests"
    assert deb.content(path, "usr/share/a") == b"x" * 3000
    assert deb.content(path, "usr/share/b") is None


@pytest.mark.skipif(which("dpkg-deb") is None, reason="dpkg-deb is not on this machine")
def test_dpkg_reads_what_we_read(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(deb_bytes("a", {"./f": b"1"}))
    said = subprocess.run(["dpkg-deb", "--field", str(path), "Version"], capture_output=True, check=True)
    assert said.stdout == b"1-1\n"


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("abcdefghij.-_", min_size=1, max_size=15), st.binary(max_size=99)), max_size=5))
def test_ar_members(members: list[tuple[str, bytes]]) -> None:
    archive = ar(members)
    found = [(name, archive[at : at + size]) for name, at, size in deb.ar_members(io.BytesIO(archive), "x")]
    assert found == members


@settings(deadline=None)
@given(st.data())
def test_a_cut_package_is_refused(data: st.DataObject) -> None:
    whole = deb_bytes("a", {"./f": b"content" * 50})
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(WrongArtifact), deb.tar_in(io.BytesIO(cut), "a.deb", "data") as members:
        for _ in members:
            pass


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive at all",
        ar([("debian-binary", b"2.0\n")]),
        ar([("data.tar.lz4", b"?")]),
        ar([("data.tar.xz", b"this is no xz stream")]),
        ar([("data.tar.gz", b"this is no gzip stream")]),
        ar([("data.tar", b"this is no tar" * 100)]),
        ar([("data.tar", tar({"./../../etc/passwd": b"evil"}))]),
    ],
)
def test_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.deb"
    path.write_bytes(content)
    with pytest.raises(WrongArtifact) as caught:
        deb.content(path, "f")
    assert caught.value.exit_code == 4
    assert "bad.deb" in str(caught.value)


def test_no_control_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.deb"
    path.write_bytes(ar([("control.tar.xz", pack(tar({"./md5sums": b""}), ".xz"))]))
    with pytest.raises(WrongArtifact, match="no readable"):
        deb.control(path)
