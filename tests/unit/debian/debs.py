"""Makes small .debs for tests."""

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.lock.model import Deb


def tar(files: Mapping[str, bytes | tarfile.TarInfo]) -> bytes:
    """A tar of files by path; a TarInfo stands for itself (links, devices)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def ar(members: Sequence[tuple[str, bytes]]) -> bytes:
    """An ar archive."""
    out = b"!<arch>\n"
    for name, content in members:
        out += b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name.encode(), 0, 0, 0, b"100644", len(content)) + content
        out += b"\n" * (len(content) % 2)
    return out


def pack(data: bytes, suffix: str) -> bytes:
    if suffix == ".xz":
        return lzma.compress(data)
    if suffix == ".gz":
        return gzip.compress(data)
    if suffix == ".zst":
        import zstandard

        return zstandard.compress(data)
    return data


def deb_bytes(
    name: str,
    files: Mapping[str, bytes | tarfile.TarInfo],
    *,
    version: str = "1-1",
    arch: str = "amd64",
    suffix: str = ".xz",
    extra: str = "",
) -> bytes:
    control = f"Package: {name}\nVersion: {version}\nArchitecture: {arch}\n{extra}Description: {name}\n for tests\n"
    return ar(
        [
            ("debian-binary", b"2.0\n"),
            (f"control.tar{suffix}", pack(tar({"./control": control.encode()}), suffix)),
            (f"data.tar{suffix}", pack(tar(files), suffix)),
        ]
    )


def make_deb(
    folder: Path, name: str, files: Mapping[str, bytes | tarfile.TarInfo], *, version: str = "1-1", arch: str = "amd64"
) -> tuple[Deb, Path]:
    """A package on disk, and the lock's line for it."""
    content = deb_bytes(name, files, version=version, arch=arch)
    path = folder / f"{name}.deb"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return Deb(name, version, path.name, len(content), digest, "suite", "main", f"pool/{path.name}", arch), path
