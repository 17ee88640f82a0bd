"""slipway.inspect.layout: every document is the one its digest names, and what is no image is said to be none."""

from __future__ import annotations

import json
from pathlib import Path

import image_builder as make
import pytest

from slipway.errors import UsageError, WrongArtifact
from slipway.inspect.layout import open_layout


def test_documents(tmp_path: Path) -> None:
    make.layout(tmp_path, [{"a": b"1"}, {"b": b"2"}], names=["debian"], config={"Env": ["PATH=/bin", "A=b=c"]})
    layout = open_layout(tmp_path)
    assert [layer.name for layer in layout.layers] == ["debian", "layer 2"]
    assert layout.env == {"PATH": "/bin", "A": "b=c"}
    assert layout.architecture == "amd64"
    blobs = [path.stat().st_size for path in (tmp_path / "blobs" / "sha256").iterdir()]
    assert layout.size == sum(blobs)


def test_a_folder_that_is_no_layout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no OCI layout"):
        open_layout(tmp_path / "nothing")


def manifest_path(folder: Path) -> Path:
    digest = json.loads((folder / "index.json").read_text())["manifests"][0]["digest"]
    return folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def test_a_changed_manifest(tmp_path: Path) -> None:
    path = manifest_path(make.layout(tmp_path, [{"a": b"1"}]))
    path.write_text(path.read_text() + " ")
    with pytest.raises(WrongArtifact, match=r"not the one its digest names: sha256:\w+ wanted, sha256:\w+ found"):
        open_layout(tmp_path)


def test_a_missing_manifest(tmp_path: Path) -> None:
    manifest_path(make.layout(tmp_path, [{"a": b"1"}])).unlink()
    with pytest.raises(WrongArtifact, match="does not hold it"):
        open_layout(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"manifests": [1]}', '{"manifests": "x"}', "\x00", '{"manifests": null}'])
def test_broken_index(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises((WrongArtifact, UsageError)):
        open_layout(tmp_path)


@pytest.mark.parametrize("digest", ["sha256:../../etc/passwd", "md5:00", "", "sha256:XY", 5])
def test_digests_never_name_other_paths(tmp_path: Path, digest: object) -> None:
    entry = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    with pytest.raises(WrongArtifact, match="no digest"):
        open_layout(tmp_path)


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_layers_that_are_cut_or_missing(tmp_path: Path, change: str) -> None:
    path = open_layout(make.layout(tmp_path, [{"a": b"1"}])).layers[0].path
    if change == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    with pytest.raises(WrongArtifact) as caught:
        open_layout(tmp_path)
    assert path.name in str(caught.value)


def several(folder: Path) -> Path:
    """A layout with an amd64 and an arm64 image and a BuildKit attestation."""
    entries = []
    for arch in ("amd64", "arm64"):
        make.layout(folder, [{"a": arch.encode()}], architecture=arch)
        entries += json.loads((folder / "index.json").read_text())["manifests"]
    entries.append({**entries[0], "annotations": {"vnd.docker.reference.type": "attestation-manifest"}})
    (folder / "index.json").write_text(json.dumps({"manifests": entries}))
    return folder


def test_the_architecture_chooses(tmp_path: Path) -> None:
    several(tmp_path)
    assert open_layout(tmp_path, "arm64").architecture == "arm64"
    with pytest.raises(UsageError, match=r"2 images \(amd64, arm64\)"):
        open_layout(tmp_path)
    with pytest.raises(UsageError, match="0 images for riscv64"):
        open_layout(tmp_path, "riscv64")


def test_an_index_in_the_index(tmp_path: Path) -> None:
    several(tmp_path)
    inner = (tmp_path / "index.json").read_bytes()
    digest = make.sha256(inner)
    (tmp_path / "blobs" / "sha256" / digest.removeprefix("sha256:")).write_bytes(inner)
    entry = {"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest, "size": len(inner)}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    assert open_layout(tmp_path, "amd64").architecture == "amd64"


def test_layers_and_configuration_must_agree(tmp_path: Path) -> None:
    make.layout(tmp_path, [{"a": b"1"}])
    index = json.loads((tmp_path / "index.json").read_text())
    manifest = json.loads(manifest_path(tmp_path).read_text())
    manifest["layers"] *= 2
    content = json.dumps(manifest).encode()
    index["manifests"][0] |= {"digest": make.sha256(content), "size": len(content)}
    (tmp_path / "blobs" / "sha256" / make.sha256(content).removeprefix("sha256:")).write_bytes(content)
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(WrongArtifact, match="the manifest has 2 layers, the configuration 1"):
        open_layout(tmp_path)
