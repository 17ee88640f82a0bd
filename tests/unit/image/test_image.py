"""Configuration, manifest and layout: the bytes depend on their inputs alone, and a layout is whole or not there."""

import json
import os
from pathlib import Path

import pytest

from slipway.errors import MissingError
from slipway.image.config import ImageLayer, Runtime, image_config
from slipway.image.layout import write_layout
from slipway.image.manifest import CONFIG, Document, canonical, manifest
from slipway.layers.blob import Blob, BlobWriter

RUNTIME = Runtime(user="1000:0", working_dir="/home/ray", entrypoint=("/e",), env={"B": "2", "A": "1"})


def make(tmp_path: Path, names: tuple[str, ...] = ("one", "two")) -> tuple[Document, Document, list[tuple[str, Path]]]:
    layers, blobs = [], []
    for name in names:
        with BlobWriter(tmp_path / name) as writer:
            writer.write(name.encode() * 1000)
        assert writer.blob is not None
        layers.append(ImageLayer(name, f"key-{name}", writer.blob))
        blobs.append((writer.blob.digest, tmp_path / name))
    config = Document(CONFIG, canonical(image_config("amd64", RUNTIME, layers, {"z": "1", "a": "2"})))
    return manifest(config, layers, {"k": "v"}), config, blobs


def write(folder: Path, made: tuple[Document, Document, list[tuple[str, Path]]]) -> None:
    write_layout(folder, *made, architecture="amd64", reference="slipway:test")


def test_every_descriptor_leads_to_its_bytes(tmp_path: Path) -> None:
    made = make(tmp_path)
    write(tmp_path / "out", made)
    index = json.loads((tmp_path / "out/index.json").read_bytes())
    blob = tmp_path / "out/blobs/sha256"
    top = index["manifests"][0]
    document = json.loads((blob / top["digest"][7:]).read_bytes())
    assert top["digest"] == made[0].digest
    for descriptor in [document["config"], *document["layers"]]:
        assert (blob / descriptor["digest"][7:]).stat().st_size == descriptor["size"]
    config = json.loads((blob / document["config"]["digest"][7:]).read_bytes())
    assert config["config"]["Env"] == ["A=1", "B=2"]
    assert len(config["history"]) == len(config["rootfs"]["diff_ids"]) == 2


def test_another_image_replaces_the_first_and_leaves_no_blobs_behind(tmp_path: Path) -> None:
    write(tmp_path / "out", make(tmp_path))
    write(tmp_path / "out", make(tmp_path, ("three",)))
    assert len(list((tmp_path / "out/blobs/sha256").iterdir())) == 3


def test_layers_are_links_not_copies(tmp_path: Path) -> None:
    made = make(tmp_path)
    write(tmp_path / "out", made)
    digest, source = made[2][0]
    assert (tmp_path / "out/blobs/sha256" / digest[7:]).samefile(source)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_output_folder_is_exit_3(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o555)
    with pytest.raises(MissingError, match="can't be written"):
        write(tmp_path / "out", make(tmp_path))


def test_a_file_where_the_output_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(MissingError, match="can't be written"):
        write(tmp_path / "out", make(tmp_path))


def test_blob_says_what_it_is() -> None:
    assert Blob("sha256:a", 1, "sha256:b", 2).as_json()["media_type"].endswith("tar+zstd")
