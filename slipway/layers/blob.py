"""A layer's blob: tar bytes in, zstd bytes on disk out, with both digests taken on the way."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import zstandard

LEVEL = 3
"""zstd level. docs/design.md says from which figures."""

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+zstd"
"""OCI image spec 1.1, https://github.com/opencontainers/image-spec/blob/v1.1.0/layer.md."""


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


def compressor_name() -> str:
    """What stands in a layer's key for the compressor: library, version and level decide the bytes."""
    return f"zstd-{'.'.join(map(str, zstandard.ZSTD_VERSION))}-level{LEVEL}"


class BlobWriter:
    """Writes tar bytes compressed to a file that appears under its name only when it is whole.

    One zstd frame, written by one thread: libzstd's multi-threaded output differs from its single-threaded one,
    and layers are made in parallel anyway.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.{os.getpid()}.part")
        self._tar = hashlib.sha256()
        self._out = hashlib.sha256()
        self._tar_size = 0
        self._size = 0
        self._pending: list[bytes] = []
        self._pending_size = 0
        self.blob: Blob | None = None

    def __enter__(self) -> BlobWriter:
        self._file = self._part.open("wb")
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, threads=0, write_content_size=False, write_checksum=True
        )
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return self

    def write(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_size += len(data)
        if self._pending_size >= 1 << 18:
            self._flush()

    def _flush(self) -> None:
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        self._pending_size = 0
        self._tar.update(data)
        self._tar_size += len(data)
        self._emit(self._compressor.compress(data))

    def _emit(self, compressed: bytes) -> None:
        if compressed:
            self._out.update(compressed)
            self._size += len(compressed)
            self._file.write(compressed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
                self._emit(self._compressor.flush())
                self._file.close()
                self._part.replace(self._path)
                self.blob = Blob(
                    digest=f"sha256:{self._out.hexdigest()}",
                    size=self._size,
                    diff_id=f"sha256:{self._tar.hexdigest()}",
                    tar_size=self._tar_size,
                )
        finally:
            self._file.close()
            self._part.unlink(missing_ok=True)
