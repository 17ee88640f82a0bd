"""The tar bytes of a layer's blob, plain, gzip or zstd, with both of its digests taken while they are read."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import IO, Protocol, cast

import zstandard

from slipway.errors import WrongArtifact
from slipway.inspect.layout import LayerRef
from slipway.inspect.untar import CHUNK

MAX_TAR = 200 << 30
"""Bytes of a layer's tar; more is a decompression bomb."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class LayerStream:
    """`read` gives tar bytes; `finish` reads the rest and compares. Raises WrongArtifact for damaged blobs."""

    def __init__(self, layer: LayerRef, file: BufferedReader) -> None:
        self._layer = layer
        self._blob = _Hashed(file, hashlib.new(layer.digest.partition(":")[0]))
        self._tar = hashlib.sha256()
        self.tar_size = 0
        # By the first bytes, not by the media type: Docker's types don't know zstd.
        start = file.peek(4)[:4]
        self._source: _Readable = self._blob
        if start == b"\x28\xb5\x2f\xfd":
            source = cast(IO[bytes], self._blob)  # read() is all that it calls
            self._source = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        elif start[:2] == b"\x1f\x8b":
            self._source = _Gzip(self._blob)

    def read(self, size: int, /) -> bytes:
        try:
            chunk = self._source.read(size)
        except (zstandard.ZstdError, zlib.error) as error:
            raise self._wrong(f"its compressed bytes are damaged: {error}") from error
        self._tar.update(chunk)
        self.tar_size += len(chunk)
        if self.tar_size > MAX_TAR:
            raise self._wrong(f"it unpacks to more than {MAX_TAR} bytes")
        return chunk

    def finish(self) -> None:
        """Read what follows the tar's end, then compare both digests with the image's. Raises WrongArtifact."""
        while self.read(CHUNK):
            pass
        while self._blob.read(CHUNK):
            pass
        found = f"{self._blob.digest.name}:{self._blob.digest.hexdigest()}"
        if found != self._layer.digest or self._layer.size not in (-1, self._blob.size):
            raise self._wrong(f"{self._layer.digest} wanted, {found} found ({self._blob.size} bytes)")
        diff_id = f"sha256:{self._tar.hexdigest()}"
        if diff_id != self._layer.diff_id:
            raise self._wrong(f"its tar should be {self._layer.diff_id} and is {diff_id}")

    def _wrong(self, why: str) -> WrongArtifact:
        return WrongArtifact(
            f"layer {self._layer.name!r} is not the one that the image names",
            where=self._layer.path,
            why=why,
            remedy="build or download the image again",
        )


class _Hashed:
    """A file whose bytes are hashed and counted as they are read."""

    def __init__(self, file: BufferedReader, digest: hashlib._Hash) -> None:
        self._file = file
        self.digest = digest
        self.size = 0

    def read(self, size: int = CHUNK, /) -> bytes:
        chunk = self._file.read(size)
        self.digest.update(chunk)
        self.size += len(chunk)
        return chunk


class _Gzip:
    """Any number of gzip members, one after the other, never more than `size` bytes at a time."""

    def __init__(self, source: _Hashed) -> None:
        self._pieces = self._decompressed(source)

    def read(self, _size: int, /) -> bytes:
        return next(self._pieces, b"")

    @staticmethod
    def _decompressed(source: _Hashed) -> Iterator[bytes]:
        chunk = source.read(CHUNK)
        while chunk:
            decompressor = zlib.decompressobj(31)
            while not decompressor.eof:
                if not chunk:
                    raise zlib.error("the stream has no end")
                if data := decompressor.decompress(chunk, CHUNK):
                    yield data
                chunk = decompressor.unconsumed_tail or (b"" if decompressor.eof else source.read(CHUNK))
            chunk = decompressor.unused_data or source.read(CHUNK)
