"""A whole image upon a base from a registry: its bytes stay, ours go on top, gates pass."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest
import zstandard

from slipway.inspect.layout import open_layout
from tests.container import builds
from tests.unit.registry.fake import running


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_an_image_upon_a_base_from_a_registry(tmp_path: Path) -> None:
    """The base is our own Debian layer as somebody else's builder would have pushed it: gzip, Docker's media types."""
    ordinary = builds.run("build", "--output", str(tmp_path / "ordinary"))
    assert ordinary.code == 0, ordinary.said
    first = open_layout(tmp_path / "ordinary").layers[0]
    raw = zstandard.ZstdDecompressor().stream_reader(first.path.open("rb")).read()
    layer = gzip.compress(raw, 1, mtime=0)
    config = json.dumps(
        {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(raw)]}}
    ).encode()
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    document = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {
            "digest": digest(config),
            "size": len(config),
            "mediaType": "application/vnd.docker.container.image.v1+json",
        },
        "layers": [
            {
                "digest": digest(layer),
                "size": len(layer),
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
            }
        ],
    }
    manifest = json.dumps(document).encode()
    with running() as registry:
        registry.blobs |= {digest(layer): layer, digest(config): config}
        registry.manifests[digest(manifest)] = (kind, manifest)
        reference = f"{registry.host}/team/base@{digest(manifest)}"
        built = builds.run("build", "--base", reference, "--output", str(tmp_path / "upon"))
    assert built.code == 0, built.said
    layout = open_layout(tmp_path / "upon")
    assert layout.layers[0].digest == digest(layer)
    assert layout.layers[0].path.read_bytes() == layer
    assert layout.layers[1].name == "base-fit"
    assert layout.labels["org.opencontainers.image.base.digest"] == digest(manifest)
    ours = {ref.digest for ref in open_layout(tmp_path / "ordinary").layers[1:] if ref.name != "ldcache"}
    assert ours <= {ref.digest for ref in layout.layers}


def test_a_base_that_does_not_fit_stops_before_anything_is_made(tmp_path: Path) -> None:
    with running() as registry:
        ended = builds.run(
            "build", "--base", f"{registry.host}/x@sha256:{'0' * 64}", "--cache", str(tmp_path / "cache")
        )
    assert ended.code == 3
    assert not list((tmp_path / "cache").glob("layers/*/*.zst"))


@pytest.mark.parametrize("reference", ["registry.example/base:12", "no reference at all"])
def test_a_base_without_a_digest_is_wrong_usage(reference: str) -> None:
    assert builds.run("build", "--base", reference).code == 2
