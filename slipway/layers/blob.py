"""A layer's blob: tar bytes in, zstd bytes on disk out, with both digests taken on the way."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

import zstandard

LEVEL = 3
"""zstd level. docs/design.md says from which figures."""

OPTIONS = "plain"
"""No checksum in the frame: everybody who reads a blob knows its sha256, and computing another one costs both sides."""

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd"
"""OCI image spec 1.1, https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md."""

_BATCH = 1 << 18
"""Bytes of small writes that are gathered before they are hashed and compressed. The output doesn't depend on it."""


@dataclass(frozen=True)
class Blob:
    """A finished layer: compressed digest and size in bytes, digest (diff_id) and size of the tar inside."""

    digest: str
    size: int
    diff_id: str
    tar_size: int
    media_type: str = MEDIA_TYPE

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Blob:
        """The reverse of `as_json`. Raises KeyError, TypeError or ValueError when something else is given."""
        blob = cls(**document)
        for digest in (blob.digest, blob.diff_id):
            if not digest.startswith("sha256:") or len(bytes.fromhex(digest[7:])) != 32:
                raise ValueError(f"{digest!r} is no digest")
        if not (type(blob.size) is int and type(blob.tar_size) is int and isinstance(blob.media_type, str)):
            raise TypeError("sizes are whole numbers, the media type is text")
        return blob


def compressor_name() -> str:
    """What stands in a layer's key for the compressor: library, version, level and options decide the bytes."""
    return f"zstd-{'.'.join(map(str, zstandard.ZSTD_VERSION))}-level{LEVEL}-{OPTIONS}"


class BlobWriter:
    """Writes tar bytes compressed to a file that appears under its name only when it is whole.

    One zstd frame, written by one thread: libzstd's multi-threaded output differs from its single-threaded one,
    and layers are made in parallel anyway.

    notes:  whoever writes the layer may leave small JSON-ready facts here; the layer cache keeps them
    report: told how many more bytes of tar are done, now and then
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.{os.getpid()}.part")
        self._tar = hashlib.sha256()
        self._tar_size = 0
        self._pending: list[bytes] = []
        self._pending_size = 0
        self.blob: Blob | None = None
        self.notes: dict[str, Any] = {}
        self.report: Callable[[int], object] | None = None

    def __enter__(self) -> BlobWriter:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, threads=0, write_content_size=False, write_checksum=False
        )
        self._out = _HashedFile(self._part)
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).stream_writer(
            cast(IO[bytes], self._out), write_size=1 << 18, closefd=False
        )
        return self

    def write(self, data: bytes) -> None:
        size = len(data)
        if size >= _BATCH:  # not copied once more to be joined with what waits
            self._flush()
            self._take(data)
            return
        self._pending.append(data)
        self._pending_size += size
        if self._pending_size >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            self._pending_size = 0
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._tar.update(data)
        self._tar_size += len(data)
        self._compressor.write(data)
        if self.report is not None:
            self.report(len(data))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
                self._compressor.flush(zstandard.FLUSH_FRAME)
                self._out.close()
                self._part.replace(self._path)
                self.blob = Blob(
                    digest=f"sha256:{self._out.hash.hexdigest()}",
                    size=self._out.size,
                    diff_id=f"sha256:{self._tar.hexdigest()}",
                    tar_size=self._tar_size,
                )
        finally:
            self._out.close()
            self._part.unlink(missing_ok=True)


class _HashedFile:
    """A new file that hashes and counts what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        view = memoryview(data)
        self.size += len(view)
        while view:
            view = view[self._file.write(view) :]
        return len(data)

    def close(self) -> None:
        self._file.close()
