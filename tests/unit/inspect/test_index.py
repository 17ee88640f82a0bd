"""slipway.inspect.index and content: what a layer's members are, and that damaged blobs are never believed."""

from __future__ import annotations

from pathlib import Path

import image_builder as make
import pytest

from slipway.errors import MissingError, WrongArtifact
from slipway.inspect import content, index
from slipway.inspect.image import read_image
from slipway.inspect.index import LayerIndex, layer_index, make_index
from slipway.inspect.layout import LayerRef, open_layout

KEY = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"


def ref(folder: Path, members: dict[str, make.Item | bytes | str | None] | bytes, how: str = "zstd") -> LayerRef:
    return open_layout(make.layout(folder, [members], compress=how)).layers[0]


@pytest.mark.parametrize("how", ["zstd", "gzip", "tar"])
def test_members(tmp_path: Path, how: str) -> None:
    library = make.elf(soname="libx.so.1", needed=["libc.so.6"])
    found = layer_index(
        ref(
            tmp_path,
            {
                "usr": None,
                "usr/bin/su": make.Item(b"#!", mode=0o4755, gid=42, xattrs={"security.capability": "x"}),
                "usr/lib/libx.so.1": library,
                "usr/lib/libx.so": make.Item(target="usr/lib/libx.so.1", hard=True),
                "lib": "usr/lib",
            },
            how,
        ),
        None,
    )
    members = {member.path: member for member in found.members}
    assert (members["usr/bin/su"].mode, members["usr/bin/su"].gid) == (0o4755, 42)
    assert members["usr/bin/su"].xattrs == ("security.capability",)
    assert members["lib"].target == "usr/lib"
    for path in ("usr/lib/libx.so.1", "usr/lib/libx.so"):
        facts = members[path].elf
        assert facts is not None
        assert facts.needed == ("libc.so.6",)
        assert members[path].sha256 == make.sha256(library).removeprefix("sha256:")
        assert members[path].size == len(library)


def test_a_long_elf_file_goes_over_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "IN_MEMORY", 1000)
    library = make.elf(soname="libbig.so", padding=3 << 20)
    member = layer_index(ref(tmp_path, {"libbig.so": library}), None).members[0]
    assert member.elf is not None
    assert member.elf.soname == "libbig.so"
    assert member.sha256 == make.sha256(library).removeprefix("sha256:")


def test_a_full_temporary_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "IN_MEMORY", 10)
    full = open("/dev/full", "w+b")  # noqa: PTH123, SIM115
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: full)
    with pytest.raises(MissingError, match=r"no room for a temporary copy of libbig\.so") as caught:
        layer_index(ref(tmp_path, {"libbig.so": make.elf(padding=3 << 20)}), None)
    assert "TMPDIR" in str(caught.value)


def test_a_damaged_elf_file_is_a_mark(tmp_path: Path) -> None:
    member = layer_index(ref(tmp_path, {"usr/lib/x.so": make.elf(soname="x")[:150]}), None).members[0]
    assert member.elf is None
    assert member.marks[0].startswith("elf: ")


def test_owners_of_wheels_and_debs(tmp_path: Path) -> None:
    members = {
        **make.wheel("torch", "2.13.0", {"torch/__init__.py": b"", "../../../bin/torchrun": b"#!"}),
        "lib": "usr/lib",
        "usr/lib/libc.so.6": b"x",
        "var/lib/dpkg/status": b"Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\n"
        b"Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n",
        "var/lib/dpkg/info/libc6:amd64.list": b"/.\n/lib\n/lib/libc.so.6\n",
        "var/lib/dpkg/status.d/tini": b"Package: tini\nVersion: 0.19\n",
    }
    members["opt/venv/bin/torchrun"] = members.pop(f"{make.SITE}/../../../bin/torchrun")
    found = layer_index(ref(tmp_path, members), None)
    owners = {member.path: member.owner for member in found.members}
    assert owners[f"{make.SITE}/torch/__init__.py"] == "wheel torch 2.13.0"
    assert owners["opt/venv/bin/torchrun"] == "wheel torch 2.13.0"
    assert owners["usr/lib/libc.so.6"] == "deb libc6 2.36-9"
    assert [package.label for package in found.packages] == [
        "wheel torch 2.13.0", "deb libc6 2.36-9", "deb tini 0.19"
    ]  # fmt: skip


def test_vendored_dist_infos_are_no_packages(tmp_path: Path) -> None:
    path = f"{make.SITE}/setuptools/_vendor/wheel-0.43.0.dist-info"
    found = layer_index(
        ref(tmp_path, {f"{path}/METADATA": b"Name: wheel\nVersion: 0.43.0\n", f"{path}/RECORD": b""}), None
    )
    assert found.packages == ()


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        (KEY, ["private key"]),
        (b'key = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA"', ["private key"]),
        (b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES\n\n" + b"A" * 64, ["private key"]),
        (b'if line == "-----BEGIN PRIVATE KEY-----":\n    return True', []),
        (b"aws = AKIAZZZZQQQQWWWWEE22\n", ["AWS access key"]),
        (b"aws = AKIAIOSFODNN7EXAMPLE\n", []),
        (b"XAKIAZZZZQQQQWWWWEE22\n", []),
        (b"token=ghp_" + b"a1B2" * 9, ["GitHub token"]),
        (b"token=ghp_" + b"a1B2" * 10, []),
        (b"github_pat_" + b"a" * 22 + b"_" + b"b" * 59, ["GitHub token"]),
        (b"HF_TOKEN=hf_" + b"aB" * 17, ["Hugging Face token"]),
        (b"self_hf_" + b"aB" * 17, []),
        (b"glpat-" + b"a1-_" * 5, ["GitLab token"]),
        (b"pypi-AgEIcHlwaS5vcmc" + b"x" * 60, ["PyPI token"]),
        (b"nvapi-" + b"x" * 64, ["NVIDIA key"]),
        (b"xoxb-1234567890-1234567890-" + b"x" * 24, ["Slack token"]),
        (b"sk-proj-" + b"x" * 48, ["OpenAI key"]),
        (b"AIza" + b"x" * 35, ["Google API key"]),
        (b"npm_" + b"x" * 36, ["npm token"]),
        (b"", []),
    ],
)
def test_secrets(data: bytes, kinds: list[str]) -> None:
    assert content.secrets(data) == kinds
    assert content.secrets(b"text before \n" * 50 + data + b"\n text behind" * 50) == kinds


def test_kept_texts_and_byte_code(tmp_path: Path) -> None:
    pth = f"{make.SITE}/x.pth"
    found = layer_index(
        ref(
            tmp_path,
            {
                pth: b"import os",
                "a/__pycache__/m.pyc": b"\xa7\r\r\n" + bytes(4) + b"\0" * 8,
                "b/__pycache__/m.pyc": b"\xa7\r\r\n\x01" + bytes(3) + b"\0" * 8,
            },
        ),
        None,
    )
    assert found.texts == {pth: b"import os"}
    assert [member.marks for member in found.members] == [(), ("pyc: timestamp",), ()]


def test_a_kept_index_is_the_same_and_needs_no_blob(tmp_path: Path) -> None:
    members = {**make.wheel("x", "1", {"x.so": make.elf(needed=["a"], needs={"a": ["V"]})}), "etc/hostname": b"h\n"}
    layer = ref(tmp_path / "layout", members)
    made = make_index(layer, tmp_path / "cache")
    layer.path.unlink()
    assert layer_index(layer, tmp_path / "cache") == made
    assert isinstance(made, LayerIndex)


def test_a_damaged_kept_index_is_made_anew(tmp_path: Path) -> None:
    layer = ref(tmp_path / "layout", {"a": b"1"})
    made = make_index(layer, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    for junk in (b"", b"junk", kept.read_bytes()[:20]):
        kept.write_bytes(junk)
        assert layer_index(layer, tmp_path / "cache") == made


def test_other_code_reads_no_old_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ref(tmp_path / "layout", {"a": b"1"})
    make_index(layer, tmp_path / "cache")
    monkeypatch.setattr(index, "version", lambda: "other")
    assert not index.is_cached(layer, tmp_path / "cache")
    make_index(layer, tmp_path / "cache")
    assert [path.name.split(".")[1] for path in (tmp_path / "cache").iterdir()] == ["other"], "the old one is removed"


@pytest.mark.parametrize("how", ["zstd", "gzip", "tar"])
@pytest.mark.parametrize("change", ["flip", "cut", "add", "empty"])
def test_damaged_blobs_are_refused_by_layer(tmp_path: Path, how: str, change: str) -> None:
    layer = ref(tmp_path, {"usr/a": b"some text " * 500}, how)
    data = bytearray(layer.path.read_bytes())
    if change == "flip":
        data[len(data) // 2] ^= 1
    elif change == "cut":
        del data[-5:]
    elif change == "add":
        data += b"more"
    else:
        data.clear()
    layer.path.write_bytes(data)
    with pytest.raises(WrongArtifact) as caught:
        make_index(layer, None)
    assert str(layer.path) in str(caught.value)


def test_a_blob_whose_tar_is_another(tmp_path: Path) -> None:
    layer = ref(tmp_path, {"a": b"1"})
    with pytest.raises(WrongArtifact, match="layer 'layer 1' is not the one") as caught:
        make_index(LayerRef(**{**layer.__dict__, "diff_id": "sha256:" + "0" * 64}), None)
    assert "its tar should be sha256:0000" in str(caught.value)


def test_several_frames_and_streams(tmp_path: Path) -> None:
    plain = make.tar({"a": b"x" * 100_000})
    for how in ("zstd", "gzip"):
        blob = make.compressed(plain[:7000], how) + make.compressed(plain[7000:], how)
        path = tmp_path / how
        path.write_bytes(blob)
        layer = LayerRef(0, "x", make.sha256(blob), len(blob), "", make.sha256(plain), path)
        assert make_index(layer, None).members[0].size == 100_000


def test_layers_are_read_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipway.inspect.image._WORTH_A_PROCESS", 0)
    folder = make.layout(tmp_path / "l", [{"a": b"1"}, {"b": b"2"}, {"c": b"3"}])
    done: list[str] = []
    image = read_image(folder, cache=tmp_path / "cache", jobs=2, done=lambda layer: done.append(layer.name))
    assert [index.members[0].path for index in image.indexes] == ["a", "b", "c"]
    assert sorted(done) == ["layer 1", "layer 2", "layer 3"]
    assert len(list((tmp_path / "cache").iterdir())) == 3
