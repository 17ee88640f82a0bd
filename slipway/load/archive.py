"""The tar that `docker load` reads: an OCI layout that has a manifest.json as well.

Engines from 20.10 to 29 know one or the other: the classic image store reads manifest.json (docker save's format,
https://github.com/moby/docker-image-spec), the containerd store reads index.json. Both accept layers in zstd; for an
engine that refuses them there is a form with bare tars, which can't be an OCI layout, because other layer bytes are
another manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import zstandard

from slipway.errors import BuildFailed
from slipway.layers.entry import Entry, file_entry
from slipway.load import reference as names
from slipway.load.layout import CHUNK, NAME_ANNOTATION, TAG_ANNOTATION, Descriptor, Layout, read_blob

Advance = Callable[[int], object]


def entries(layout: Layout, reference: str, advance: Advance = lambda _size: None) -> Iterator[Entry]:
    """Members of the tar with the layers as they are. `advance` hears of every number of blob bytes that went out."""
    for blob in layout.blobs:
        yield _blob_entry(layout, blob, advance)
    yield file_entry("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    yield file_entry("index.json", _index(layout, reference))
    yield file_entry("manifest.json", _manifest_json(layout, reference, [layer.path for layer in layout.layers]))


def plain_entries(layout: Layout, reference: str, advance: Advance = lambda _size: None) -> Iterator[Entry]:
    """Members of the tar with uncompressed layers, in docker save's format alone."""
    paths = []
    for layer in dict.fromkeys(layout.layers):
        if not layer.media_type.endswith("+zstd"):
            raise BuildFailed(f"a layer is {layer.media_type}; only tar+zstd can be uncompressed here")
        size = sum(len(chunk) for chunk in _uncompressed(layout, layer, lambda _size: None))
        path = f"{layer.digest.removeprefix('sha256:')}/layer.tar"
        paths.append(path)
        yield Entry(path, size=size, read=lambda layer=layer: _uncompressed(layout, layer, advance))  # type: ignore[misc]
    by_digest = dict(zip(dict.fromkeys(layer.digest for layer in layout.layers), paths, strict=True))
    yield _blob_entry(layout, layout.config, advance)
    yield file_entry(
        "manifest.json", _manifest_json(layout, reference, [by_digest[layer.digest] for layer in layout.layers])
    )


def _blob_entry(layout: Layout, blob: Descriptor, advance: Advance) -> Entry:
    return Entry(
        blob.path, size=blob.size, read=lambda: _counted(read_blob(layout.folder, blob), advance), origin=blob.digest
    )


def _counted(chunks: Iterator[bytes], advance: Advance) -> Iterator[bytes]:
    for chunk in chunks:
        advance(len(chunk))
        yield chunk


def _uncompressed(layout: Layout, layer: Descriptor, advance: Advance) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    for chunk in read_blob(layout.folder, layer):
        advance(len(chunk))
        data = decompressor.decompress(chunk)
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]


def _index(layout: Layout, reference: str) -> bytes:
    """index.json. In the containerd store its annotation wins over manifest.json's RepoTags, so both say the same."""
    entry = {
        "mediaType": layout.manifest.media_type,
        "digest": layout.manifest.digest,
        "size": layout.manifest.size,
        "annotations": {
            NAME_ANNOTATION: names.qualified(reference),
            TAG_ANNOTATION: names.split(reference)[2],
        },
        **({"platform": dict(layout.platform)} if layout.platform else {}),
    }
    return _json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]})


def _manifest_json(layout: Layout, reference: str, layers: list[str]) -> bytes:
    return _json([{"Config": layout.config.path, "RepoTags": [names.familiar(reference)], "Layers": layers}])


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
