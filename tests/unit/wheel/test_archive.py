"""The zip reader: gives back what was packed, and refuses every kind of lie."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.wheel import member as limits
from slipway.wheel.archive import CHUNK, Archive
from slipway.wheel.refused import RefusedWheel


def pack(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content, compression)
    return path


def read_all(path: Path) -> dict[str, bytes]:
    with Archive(path, "demo.whl") as archive:
        return {member.name: archive.read(member) for member in archive.members}


def patch(path: Path, old: bytes, new: bytes, count: int = -1) -> None:
    raw = path.read_bytes()
    assert old in raw
    path.write_bytes(raw.replace(old, new, count))


def local_field(path: Path, offset: int, value: int, form: str = "<I") -> None:
    """Overwrite a field of the first local header."""
    raw = bytearray(path.read_bytes())
    struct.pack_into(form, raw, offset, value)
    path.write_bytes(raw)


def central_field(path: Path, offset: int, value: int, form: str = "<I") -> None:
    """Overwrite a field of the first record of the central directory."""
    raw = bytearray(path.read_bytes())
    struct.pack_into(form, raw, raw.index(b"PK\1\2") + offset, value)
    path.write_bytes(raw)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text("abcäé ", min_size=1, max_size=12),
        st.tuples(st.binary(max_size=64), st.integers(0, 3000)).map(lambda pair: pair[0] * pair[1]),
        max_size=6,
    ),
    st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED]),
)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, members: dict[str, bytes], compression: int) -> None:
    path = pack(tmp_path_factory.mktemp("zip") / "demo.whl", members, compression)
    assert read_all(path) == members


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_big_members_come_in_pieces(tmp_path: Path, compression: int) -> None:
    content = bytes(range(256)) * 20_000
    path = pack(tmp_path / "demo.whl", {"big": content}, compression)
    with Archive(path, "demo.whl") as archive:
        pieces = list(archive.chunks(archive.members[0]))
        assert b"".join(pieces) == content
        assert max(map(len, pieces)) <= CHUNK
        assert archive.start(archive.members[0], 8)[:8] == content[:8]


def test_sizes_behind_the_data_are_read(tmp_path: Path) -> None:
    """An archive written to a pipe has flag 3 set and zeros in its local headers."""

    class Pipe:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> int:
            self.data += data
            return len(data)

        def flush(self) -> None: ...

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type,call-overload]
        archive.writestr("a", b"x" * 1000)
    (tmp_path / "demo.whl").write_bytes(pipe.data)
    assert read_all(tmp_path / "demo.whl") == {"a": b"x" * 1000}


def test_directories_are_left_out(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"a/": b"", "a/b": b"1"})
    assert list(read_all(path)) == ["a/b"]


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "a/../../x", "..", "/x", "//x", "a//b", "./a", "a/./b", "a\\b", "..\\x", "C:/x", "c:x"),
        *(".wh.a", "a/.wh.b", "a/.wh..wh..opq", "a/\x01b", "a\nb", "\x7f", "x" * 300, "/".join(["abcdefgh"] * 140)),
    ],
)
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / "demo.whl", {"good": b"1", name: b"2"})
    with pytest.raises(RefusedWheel) as caught:
        Archive(path, "demo.whl")
    assert caught.value.wheel == "demo.whl"
    assert caught.value.member == name
    assert "demo.whl" in str(caught.value) and ascii(name) in str(caught.value)


@pytest.mark.parametrize("name", ["a/..b", "a../b", "a/wh.b", "a b", "a.wh.b", "C/x", "ä/é", "x" * 255])
def test_odd_but_good_names_are_taken(tmp_path: Path, name: str) -> None:
    assert read_all(pack(tmp_path / "demo.whl", {name: b"2"})) == {name: b"2"}


def test_nul_in_a_name(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"evil.py_hidden": b"1"})
    patch(path, b"evil.py_hidden", b"evil.py\0hidden")
    with pytest.raises(RefusedWheel, match="NUL"):
        Archive(path, "demo.whl")


def test_name_that_is_not_what_the_local_header_says(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"good.py": b"1"})
    patch(path, b"good.py", b"evil.py", 1)
    with pytest.raises(RefusedWheel, match=r"'good\.py'.*contradicts.*name"):
        read_all(path)


@pytest.mark.parametrize(
    ("offset", "form", "value", "word"),
    [(0, "<I", 0, "signature"), (6, "<H", 1, "flags"), (8, "<H", 0, "compression"), (14, "<I", 7, "CRC")]
    + [(18, "<I", 1, "compressed size"), (22, "<I", 1, "size"), (26, "<H", 3, "name")],
)
def test_local_header_against_central_directory(tmp_path: Path, offset: int, form: str, value: int, word: str) -> None:
    path = pack(tmp_path / "demo.whl", {"good.py": b"1" * 100})
    local_field(path, offset, value, form)
    with pytest.raises(RefusedWheel, match=word):
        read_all(path)


def test_damaged_data(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"good.py": b"abcdefgh" * 8}, zipfile.ZIP_STORED)
    patch(path, b"abcdefgh", b"abcdefgX", 1)
    with pytest.raises(RefusedWheel, match="CRC"):
        read_all(path)


def test_damaged_deflate_stream(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"g": bytes(range(256)) * 9000})
    raw = bytearray(path.read_bytes())
    raw[31:60] = b"\xff" * 29
    path.write_bytes(raw)
    with pytest.raises(RefusedWheel, match="damaged|CRC|bytes"):
        read_all(path)


@pytest.mark.parametrize("size", [1, 50, 150, 5_000_000])
@pytest.mark.parametrize("plain", [100, 3_000_000])
def test_size_that_is_a_lie(tmp_path: Path, size: int, plain: int) -> None:
    """Never more bytes than announced: a bomb that understates itself stops at its own lie."""
    path = pack(tmp_path / "demo.whl", {"g": b"1" * plain})
    local_field(path, 22, size)
    central_field(path, 24, size)
    with Archive(path, "demo.whl") as archive, pytest.raises(RefusedWheel, match="announces"):
        total = 0
        for chunk in archive.chunks(archive.members[0]):
            total += len(chunk)
            assert total <= size


def test_absurd_ratio(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"bomb": bytes(limits.RATIO_FROM + 1)})
    with pytest.raises(RefusedWheel, match="'bomb'.*absurd"):
        Archive(path, "demo.whl")


def test_absurd_ratio_of_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RATIO_FROM", 1 << 20)
    path = pack(tmp_path / "demo.whl", {f"bomb{number}": bytes(900_000) for number in range(4)})
    with pytest.raises(RefusedWheel, match="absurd"):
        Archive(path, "demo.whl")


def test_absurd_size(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"g": b"1" * 100}, zipfile.ZIP_STORED)
    for field in (20, 24):
        central_field(path, field, 0xFFFFFFF0)
    with pytest.raises(RefusedWheel):
        Archive(path, "demo.whl")


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBERS", 3)
    with pytest.raises(RefusedWheel, match="4 members"):
        Archive(pack(tmp_path / "demo.whl", {str(number): b"" for number in range(4)}), "demo.whl")


def test_overlapping_members(tmp_path: Path) -> None:
    """Two records of the central directory that point to one local header."""
    path = pack(tmp_path / "demo.whl", {"a": b"1" * 500, "b": b"2" * 500})
    raw = bytearray(path.read_bytes())
    second = raw.index(b"PK\1\2", raw.index(b"PK\1\2") + 4)
    struct.pack_into("<I", raw, second + 42, 0)
    path.write_bytes(raw)
    with pytest.raises(RefusedWheel, match="overlaps"):
        Archive(path, "demo.whl")


def test_duplicate_members(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "demo.whl", "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    with pytest.raises(RefusedWheel, match="'a'.*twice"):
        Archive(tmp_path / "demo.whl", "demo.whl")


def test_file_and_directory_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(RefusedWheel, match="twice"):
        Archive(pack(tmp_path / "demo.whl", {"a": b"1", "a/": b""}), "demo.whl")


def test_encrypted(tmp_path: Path) -> None:
    path = pack(tmp_path / "demo.whl", {"a": b"1"})
    central_field(path, 8, 1, "<H")
    with pytest.raises(RefusedWheel, match="encrypted"):
        Archive(path, "demo.whl")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(tmp_path: Path, compression: int) -> None:
    with pytest.raises(RefusedWheel, match="not supported"):
        Archive(pack(tmp_path / "demo.whl", {"a": b"1" * 99}, compression), "demo.whl")


@pytest.mark.parametrize("kind", [0o010000, 0o020000, 0o060000, 0o140000])
def test_special_files(tmp_path: Path, kind: int) -> None:
    path = pack(tmp_path / "demo.whl", {"a": b""})
    central_field(path, 38, (kind | 0o644) << 16)
    with pytest.raises(RefusedWheel, match="file type"):
        Archive(path, "demo.whl")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip file" * 100])
def test_no_zip_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "demo.whl").write_bytes(content)
    with pytest.raises(RefusedWheel, match="not a whole zip"):
        Archive(tmp_path / "demo.whl", "demo.whl")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 255))
def test_one_flipped_byte_never_passes_unseen(tmp_path_factory: pytest.TempPathFactory, place: int, value: int) -> None:
    """Whatever byte changes: refused, or the members are still exactly what they were."""
    members = {"pkg/a.py": b"print('a')\n" * 20, "pkg/b.bin": bytes(range(200))}
    path = pack(tmp_path_factory.mktemp("zip") / "demo.whl", members)
    raw = bytearray(path.read_bytes())
    raw[place % len(raw)] = value
    path.write_bytes(raw)
    try:
        found = read_all(path)
    except RefusedWheel:
        return
    assert all(members.get(name) == content for name, content in found.items()) or found.keys() != members.keys()
