"""Unpacks .deb files with Python alone: an ar archive that holds a tar.

Format: deb(5), of Debian's package dpkg-dev. For what the driver itself runs (the
image's Python, to compile byte-code); the Debian layer of an image is mmdebstrap's and dpkg's work.
"""

from __future__ import annotations

import gzip
import io
import lzma
import posixpath
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import zstandard

from slipway.errors import WrongArtifact

_MAGIC = b"!<arch>\n"
_HEADER = 60


def unpack(deb: Path, root: Path, wanted: Callable[[str], bool]) -> None:
    """Write the files of a package for which `wanted` (a path without leading "/") is true below `root`.

    Regular files and relative symlinks that stay inside; owners, times and special files are left out.
    Raises WrongArtifact when it is no .deb.
    """
    name, content = _data(deb)
    try:
        with _opened(name, content) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                path = posixpath.normpath(member.name.lstrip("/"))
                if path.startswith("..") or not wanted(path):
                    continue
                _write(archive, member, root / path, path)
    except (tarfile.TarError, lzma.LZMAError, zstandard.ZstdError, EOFError, gzip.BadGzipFile) as error:
        raise WrongArtifact(f"{deb.name} can't be unpacked: {error}", where=deb) from error


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, path: str) -> None:
    if member.issym():
        end = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
        if not member.linkname.startswith("/") and not end.startswith(".."):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(member.linkname)
    elif member.isreg():
        content = archive.extractfile(member)
        target.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            target.write_bytes(content.read())
            target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _data(deb: Path) -> tuple[str, IO[bytes]]:
    """Name and content of the ar member that holds the files."""
    file = deb.open("rb")
    if file.read(len(_MAGIC)) != _MAGIC:
        file.close()
        raise WrongArtifact(f"{deb.name} is no .deb", where=deb)
    while len(head := file.read(_HEADER)) == _HEADER:
        name = head[:16].decode("latin-1").rstrip(" /")
        size = int(head[48:58])
        if name.startswith("data.tar"):
            content = io.BytesIO(file.read(size))
            file.close()
            return name, content
        file.seek(size + size % 2, io.SEEK_CUR)
    file.close()
    raise WrongArtifact(f"{deb.name} holds no data.tar", where=deb)


def _opened(name: str, content: IO[bytes]) -> IO[bytes]:
    if name.endswith(".xz"):
        return cast(IO[bytes], lzma.open(content))
    if name.endswith(".zst"):
        return cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(content))
    if name.endswith(".gz"):
        return cast(IO[bytes], gzip.open(content))
    return content
