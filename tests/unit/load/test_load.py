"""`--load`: any layout becomes one tar that is a layout and has a manifest.json; no engine gets damage whole."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipway.engine.model import Engine
from slipway.errors import BuildFailed, MissingError, UsageError, WrongArtifact
from slipway.layers.tar import write_tar
from slipway.load import archive, layout, load

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
REFERENCE = "registry.example:5000/team/slipway:2.60-cpu"


def add_blob(folder: Path, content: bytes, media_type: str, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs" / "sha256" / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}


def make_layout(folder: Path, layers: list[bytes], *, nested: bool = False, annotations: bool = True) -> Path:
    """A layout of one image whose layers' uncompressed bytes are given."""
    (folder / "blobs" / "sha256").mkdir(parents=True)
    descriptors = [add_blob(folder, zstandard.compress(layer), LAYER) for layer in layers]
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": add_blob(folder, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": descriptors,
    }
    entry = add_blob(folder, json.dumps(manifest).encode(), MANIFEST, platform={"os": "linux", "architecture": "amd64"})
    if annotations:
        entry["annotations"] = {"io.containerd.image.name": "docker.io/library/slipway:2.60-cpu"}
    index: dict[str, Any] = {"schemaVersion": 2, "manifests": [entry]}
    if nested:
        kind = "application/vnd.oci.image.index.v1+json"
        index = {"schemaVersion": 2, "manifests": [add_blob(folder, json.dumps(index).encode(), kind)]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def members(tar: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(tar)) as reader:
        for member in reader:
            file = reader.extractfile(member)
            assert member.name not in found
            if file is not None:
                found[member.name] = file.read()
    return found


LAYERS = st.lists(st.binary(max_size=3000), min_size=1, max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(layers=LAYERS, nested=st.booleans())
def test_any_layout_becomes_a_layout_with_a_manifest_json(
    tmp_path_factory: pytest.TempPathFactory, layers: list[bytes], nested: bool
) -> None:
    image = layout.read(make_layout(tmp_path_factory.mktemp("layout") / "x", layers, nested=nested))
    sent: list[int] = []
    sink = io.BytesIO()
    write_tar(archive.entries(image, REFERENCE, sent.append), sink)
    found = members(sink.getvalue())
    assert sum(sent) == image.size
    assert json.loads(found["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, content in found.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    [entry] = json.loads(found["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == REFERENCE
    manifest = json.loads(found[f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"])
    [classic] = json.loads(found["manifest.json"])
    assert classic["RepoTags"] == [REFERENCE]
    assert classic["Config"] == f"blobs/sha256/{manifest['config']['digest'].removeprefix('sha256:')}"
    assert [zstandard.decompress(found[path]) for path in classic["Layers"]] == layers


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(layers=LAYERS)
def test_any_layout_can_be_sent_uncompressed(tmp_path_factory: pytest.TempPathFactory, layers: list[bytes]) -> None:
    image = layout.read(make_layout(tmp_path_factory.mktemp("layout") / "x", layers))
    sink = io.BytesIO()
    write_tar(archive.plain_entries(image, "slipway:x"), sink)
    found = members(sink.getvalue())
    [classic] = json.loads(found["manifest.json"])
    assert [found[path] for path in classic["Layers"]] == layers
    assert "index.json" not in found, "it would be a layout whose blobs are not what its manifest says"
    assert classic["RepoTags"] == ["slipway:x"]


def test_the_tar_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    for place, sink in (("a", first), ("b", second)):
        write_tar(archive.entries(layout.read(make_layout(tmp_path / place, [b"x", b"y"])), "slipway"), sink)
    assert first.getvalue() == second.getvalue()


def test_a_damaged_layer_is_exit_4_with_both_hashes(tmp_path: Path) -> None:
    image = layout.read(make_layout(tmp_path / "x", [b"content"]))
    blob = tmp_path / "x" / image.layers[0].path
    wrong = bytes(reversed(blob.read_bytes()))
    blob.write_bytes(wrong)
    with pytest.raises(WrongArtifact) as caught:
        write_tar(archive.entries(image, "slipway"), io.BytesIO())
    assert caught.value.exit_code == 4
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert image.layers[0].digest in str(caught.value)


@pytest.mark.parametrize("extra", [b"", b"more"])
def test_a_damaged_manifest_is_exit_4(tmp_path: Path, extra: bytes) -> None:
    folder = make_layout(tmp_path / "x", [b"content"])
    manifest = folder / layout.read(folder).manifest.path
    manifest.write_bytes(extra + manifest.read_bytes()[:-1])
    with pytest.raises(WrongArtifact):
        layout.read(folder)


def test_a_missing_blob_is_told(tmp_path: Path) -> None:
    image = layout.read(make_layout(tmp_path / "x", [b"content"]))
    (tmp_path / "x" / image.layers[0].path).unlink()
    with pytest.raises(WrongArtifact, match="does not hold it"):
        write_tar(archive.entries(image, "slipway"), io.BytesIO())


@pytest.mark.parametrize(
    "index",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"manifests": []}',
        '{"manifests": [{"digest": "md5:0", "size": 1}]}',
        '{"manifests": [{"digest": "sha256:../../../etc/passwd", "size": 1}]}',
        '{"manifests": [{}, {}]}',
    ],
)
def test_what_is_no_layout_is_wrong_usage(tmp_path: Path, index: str) -> None:
    (tmp_path / "index.json").write_text(index)
    with pytest.raises((UsageError, WrongArtifact)):
        layout.read(tmp_path)
    with pytest.raises(UsageError, match=r"no index\.json"):
        layout.read(tmp_path / "absent")


DOCKER = """\
    #!/usr/bin/env python3
    import json, os, pathlib, sys, tarfile
    state = pathlib.Path(os.environ["HOME"])
    if sys.argv[1] == "load":
        count = len(list(state.glob("load-*")))
        names, plain = {}, True
        try:
            with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
                for member in tar:
                    if member.isfile():
                        names[member.name] = tar.extractfile(member).read() if member.name.endswith("json") else b""
        except tarfile.TarError as error:
            sys.exit(f"unexpected end: {error}")
        (state / f"load-{count}").write_text("\\n".join(names))
        if (state / "refuse").exists() and count < int((state / "refuse").read_text()):
            sys.exit((state / "words").read_text())
        [entry] = json.loads(names["manifest.json"])
        (state / "id").write_text("sha256:" + entry["Config"].rpartition("/")[2])
        print("Loaded image")
    elif (state / "id").exists():
        print(json.dumps([{"Id": (state / "id").read_text()}]))
    else:
        sys.exit("No such image")
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `docker` command that keeps its state in a folder, which is returned."""
    state = tmp_path / "state"
    (state / "bin").mkdir(parents=True)
    (state / "bin" / "docker").write_text(textwrap.dedent(DOCKER))
    (state / "bin" / "docker").chmod(stat.S_IRWXU)
    monkeypatch.setenv("HOME", str(state))
    monkeypatch.setenv("PATH", f"{state / 'bin'}:/usr/local/bin:/usr/bin:/bin")
    return state


ENGINE = Engine("28", "classic")


def test_it_is_loaded_once(tmp_path: Path, docker: Path) -> None:
    folder = make_layout(tmp_path / "x", [b"a", b"b"])
    first = load.load(folder, ENGINE)
    assert (first.reference, first.how) == ("slipway:2.60-cpu", "sent as it is")
    assert load.load(folder, ENGINE).how == "was there"
    assert [path.name for path in docker.glob("load-*")] == ["load-0"]


def test_an_engine_that_refuses_zstd_gets_plain_layers(tmp_path: Path, docker: Path) -> None:
    (docker / "refuse").write_text("1")
    (docker / "words").write_text("archive/tar: invalid tar header")
    assert load.load(make_layout(tmp_path / "x", [b"a"]), ENGINE).how == "sent uncompressed"
    assert "layer.tar" in (docker / "load-1").read_text()


def test_an_old_engine_is_not_even_asked(tmp_path: Path, docker: Path) -> None:
    old = Engine("20.10.24+dfsg1", "classic")
    assert load.load(make_layout(tmp_path / "x", [b"a"]), old).how == "sent uncompressed"
    assert [path.name for path in docker.glob("load-*")] == ["load-0"]


def test_an_engine_that_refuses_both_is_told(tmp_path: Path, docker: Path) -> None:
    (docker / "refuse").write_text("2")
    (docker / "words").write_text("no, thank you")
    with pytest.raises(BuildFailed, match="no, thank you"):
        load.load(make_layout(tmp_path / "x", [b"a"]), ENGINE)


def test_a_full_engine_is_exit_3_at_once(tmp_path: Path, docker: Path) -> None:
    (docker / "refuse").write_text("2")
    (docker / "words").write_text("write /layer: no space left on device")
    with pytest.raises(MissingError):
        load.load(make_layout(tmp_path / "x", [b"a"]), ENGINE)
    assert [path.name for path in docker.glob("load-*")] == ["load-0"]


def test_an_engine_never_gets_a_damaged_image_whole(tmp_path: Path, docker: Path) -> None:
    folder = make_layout(tmp_path / "x", [b"a" * 100])
    blob = folder / layout.read(folder).layers[0].path
    blob.write_bytes(blob.read_bytes()[::-1])
    with pytest.raises(WrongArtifact):
        load.load(folder, ENGINE)
    assert not (docker / "id").exists()
    assert not list(docker.glob("load-*"))


def test_an_engine_that_has_something_else_is_told(tmp_path: Path, docker: Path) -> None:
    folder = make_layout(tmp_path / "x", [b"a"])
    script = docker / "bin" / "docker"
    script.write_text(script.read_text().replace('rpartition("/")[2])', 'rpartition("/")[2][::-1])'))
    with pytest.raises(BuildFailed, match="something else"):
        load.load(folder, ENGINE)
