"""Small images for tests of pushes: layouts with the labels of a pinned image and layers of made-up bytes."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.cli import common
from slipway.errors import BuildFailed
from slipway.image.config import CREATED, ImageLayer, image_config
from slipway.image.definition import RUNTIME
from slipway.image.definition import labels as labels_of
from slipway.image.layout import write_layout
from slipway.image.manifest import CONFIG, MANIFEST, Document, canonical
from slipway.image.manifest import manifest as manifest_of
from slipway.layers.blob import BlobWriter
from slipway.layers.entry import file_entry
from slipway.layers.tar import write_tar
from slipway.lock import file, path
from slipway.pins import load
from slipway.registry.client import Repository
from slipway.sources.outcome import Absent

LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"


def real_labels(variant: str = "cpu") -> dict[str, str]:
    """The labels that the default release's image of a variant has."""
    selection = load(common.ROOT / "versions.toml").select(None, variant, None)
    return dict(labels_of(selection, file.read(path(selection.release, selection.variant, selection.arch))))


def layout(folder: Path, sizes: Sequence[int], labels: Mapping[str, str], seed: int = 0, arch: str = "amd64") -> str:
    """Write an image of layers of `sizes` bytes; returns the manifest's digest. Its layers can't be unpacked."""
    blobs = folder.parent / f"{folder.name}.blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    made: list[tuple[str, Path]] = []
    descriptors = []
    for number, size in enumerate(sizes):
        content = random.Random(f"{seed} {number}").randbytes(size)  # noqa: S311
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        source = blobs / digest[7:]
        source.write_bytes(content)
        made.append((digest, source))
        descriptors.append({"mediaType": LAYER, "digest": digest, "size": size})
    config = Document(
        CONFIG,
        canonical(
            {
                "architecture": arch,
                "os": "linux",
                "created": CREATED,
                "config": {"Labels": dict(labels)},
                "rootfs": {"type": "layers", "diff_ids": [digest for digest, _ in made]},
            }
        ),
    )
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor(), "layers": descriptors}
    manifest = Document(MANIFEST, canonical(document))
    write_layout(folder, manifest, config, made, architecture=arch, reference="slipway:test")
    return manifest.digest


def real_layout(folder: Path, files: Mapping[str, bytes], labels: Mapping[str, str]) -> str:
    """An image of one layer a file, which engines could unpack; returns the manifest's digest."""
    layers, blobs = [], []
    for name, content in files.items():
        target = folder.parent / f"{folder.name}.{name.replace('/', '_')}"
        with BlobWriter(target) as writer:
            write_tar([file_entry(name, content)], writer)
        blob = writer.blob
        if blob is None:
            raise BuildFailed("a layer was not finished", where=target)
        layers.append(ImageLayer(name, "0" * 64, blob))
        blobs.append((blob.digest, target))
    config = Document(CONFIG, canonical(image_config("amd64", RUNTIME, layers, labels)))
    made = manifest_of(config, layers, labels)
    write_layout(folder, made, config, blobs, architecture="amd64", reference="slipway:test")
    return made.digest


def incomplete(repository: Repository) -> list[str]:
    """What any tag of a repository leads to and is not there: "" for a registry that is whole. Follows indexes and
    subjects."""
    try:
        response = repository.request("GET", f"{repository.root}/tags/list", repository.pull_scope, keep_body=True)
        names = json.loads(response.read(1 << 20)).get("tags") or []
    except Absent:
        return []
    wrong: list[str] = []
    for name in names:
        _look(repository, str(name), str(name), wrong)
    return wrong


def _look(repository: Repository, target: str, way: str, wrong: list[str]) -> None:
    try:
        document = json.loads(repository.manifest(target).content)
    except Absent:
        wrong.append(f"{way}: no manifest {target}")
        return
    for entry in document.get("manifests") or []:
        _look(repository, str(entry["digest"]), f"{way} → {str(entry['digest'])[7:19]}", wrong)
    for entry in [*filter(None, [document.get("config")]), *(document.get("layers") or [])]:
        size = repository.blob_size(str(entry["digest"]))
        if size != entry["size"]:
            wrong.append(f"{way}: blob {entry['digest']} of {entry['size']} bytes is {size}")
