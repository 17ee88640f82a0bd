"""Reads .deb files: an ar archive that holds a control tar and a data tar, each compressed.

Format: deb(5), of Debian's package dpkg-dev; ar headers are 60 bytes of text.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import lzma
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

from slipway.errors import WrongArtifact
from slipway.inspect.untar import TarReader

_MAGIC = b"!<arch>\n"
_HEADER = 60
_MAX_CONTROL = 1 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Slice(io.RawIOBase):
    """`size` bytes of a file from `start`, as a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._at, self._left = file, start, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._file.seek(self._at)
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._at += len(data)
        self._left -= len(data)
        return len(data)


def ar_members(file: BinaryIO, name: str) -> Iterator[tuple[str, int, int]]:
    """(name, offset of the content, size) of each member. Raises WrongArtifact for anything but a whole ar archive."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise _damaged(name, "it does not begin as an ar archive")
    at = len(_MAGIC)
    end = file.seek(0, io.SEEK_END)
    while at < end:
        file.seek(at)
        header = file.read(_HEADER)
        digits = header[48:58].strip()
        if len(header) < _HEADER or header[58:60] != b"`\n" or not digits.isdigit():
            raise _damaged(name, "a member's header is malformed")
        size = int(digits)
        if at + _HEADER + size > end:
            raise _damaged(name, "it ends in the middle of a member")
        yield header[:16].decode("ascii", "replace").rstrip(" /"), at + _HEADER, size
        at += _HEADER + size + size % 2


@contextlib.contextmanager
def open_tar(path: Path, which: str) -> Iterator[TarReader]:
    """The "control" or the "data" tar of a package, for reading in a stream. Raises WrongArtifact for a damaged one."""
    with path.open("rb") as file, tar_in(file, path.name, which) as tar:
        yield tar


@contextlib.contextmanager
def tar_in(file: BinaryIO, name: str, which: str) -> Iterator[TarReader]:
    """The same from an open file; `name` is for messages."""
    for member, start, size in ar_members(file, name):
        if member.split(".")[0] == which and member.split(".")[1:2] == ["tar"]:
            try:
                yield TarReader(_decompressed(file, start, size, member, name), f"{name}, {member}")
            except (lzma.LZMAError, EOFError, gzip.BadGzipFile, zstandard.ZstdError) as problem:
                raise _damaged(name, f"{member} can't be decompressed: {problem}") from problem
            return
    raise _damaged(name, f"it has no {which}.tar")


def _decompressed(file: BinaryIO, start: int, size: int, member: str, name: str) -> Readable:
    content = cast(BinaryIO, io.BufferedReader(Slice(file, start, size), 1 << 18))
    suffix = member.rpartition(".")[2]
    if suffix == "xz":
        return lzma.open(content)
    if suffix == "gz":
        return gzip.open(content)
    if suffix == "zst":
        return zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
    if suffix == "tar":
        return content
    raise _damaged(name, f"{member} is compressed in a way that is not known here")


def control(path: Path) -> str:
    """The text of the package's control file, without the line end at its end."""
    with open_tar(path, "control") as tar:
        for member in tar:
            if member.path == "control" and member.size <= _MAX_CONTROL:
                return b"".join(tar.content()).decode("utf-8").rstrip("\n")
    raise _damaged(path.name, "it has no control file")


def content(path: Path, wanted: str) -> bytes | None:
    """The bytes of one file of the package, None where it ships none of that path."""
    with open_tar(path, "data") as tar:
        for member in tar:
            if member.path == wanted and member.kind == "file":
                return b"".join(tar.content())
    return None


def unpack(deb: Path, root: Path, wanted: Callable[[str], bool]) -> None:
    """Write the files of a package for which `wanted` (a path without leading "/") is true below `root`, for programs
    that the driver itself runs.

    Regular files and relative symlinks that stay inside; owners, times and special files are left out.
    Raises WrongArtifact when it is no .deb.
    """
    with open_tar(deb, "data") as tar:
        for member in tar:
            if not wanted(member.path):
                continue
            target = root / member.path
            if member.kind == "symlink":
                end = posixpath.normpath(posixpath.join(posixpath.dirname(member.path), member.target))
                if not member.target.startswith("/") and not end.startswith(".."):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.symlink_to(member.target)
            elif member.kind == "file":
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    file.writelines(tar.content())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _damaged(name: str, why: str) -> WrongArtifact:
    return WrongArtifact("a package is no readable .deb", where=name, why=why, remedy="fetch it again")
