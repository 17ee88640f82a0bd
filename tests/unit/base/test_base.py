"""Somebody else's image under ours: what it must have, that its bytes stay, and that one that won't fit is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway import pins
from slipway.base.examine import LIBRARIES, PROGRAMS, SOURCE_LIBRARIES
from slipway.base.find import find_base
from slipway.base.layers import recipes
from slipway.build import Context
from slipway.errors import InvalidInput, MissingError, UsageError
from slipway.layers.cache import LayerCache
from slipway.layers.pool import WorkerPool
from slipway.progress import Progress
from slipway.store import Store
from slipway.store.fetch import FetchOptions
from tests.unit.debian.debs import tar
from tests.unit.inspect.image_builder import elf
from tests.unit.registry.fake import Registry, running

ROOT = Path(__file__).parents[3]
SELECTION = pins.load(ROOT / "versions.toml").select("2.60", "cpu", "amd64")
LIB = "usr/lib/x86_64-linux-gnu"
PASSWD = b"root:x:0:0:root:/root:/bin/bash\n"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as server:
        yield server


def files(
    glibc: tuple[str, ...] = ("GLIBC_2.31", "GLIBC_2.36"), python: str = "usr/bin/python3.11"
) -> dict[str, bytes]:
    libraries = {**LIBRARIES, **SOURCE_LIBRARIES}
    return {
        f"{LIB}/libc.so.6": elf(soname="libc.so.6", defines=glibc),
        **{f"{LIB}/{name}": elf(soname=name) for name in libraries},
        **{path: elf() for path in PROGRAMS},
        python: elf(),
        f"{python.removesuffix('bin/python3.11')}include/python3.11/Python.h": b"",
        "etc/passwd": PASSWD,
    }


def push(registry: Registry, content: dict[str, bytes], arch: str = "amd64") -> str:
    """A one-layer image of another builder, gzip and Docker's media types, in an index. Its reference."""
    raw = tar(content)
    layer = gzip.compress(raw, mtime=0)
    config = json.dumps(
        {"architecture": arch, "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(raw)]}}
    ).encode()
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **described(config)},
        "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **described(layer)}],
    }
    body = json.dumps(manifest).encode()
    top = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{"mediaType": kind, **described(body), "platform": {"architecture": "amd64", "os": "linux"}}],
    }
    index = json.dumps(top).encode()
    registry.blobs |= {digest(layer): layer, digest(config): config}
    registry.manifests[digest(body)] = (kind, body)
    registry.manifests[digest(index)] = ("application/vnd.oci.image.index.v1+json", index)
    return f"{registry.host}/team/base@{digest(index)}"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def described(content: bytes) -> dict[str, object]:
    return {"digest": digest(content), "size": len(content)}


def test_a_base_that_fits_is_reused_byte_for_byte(registry: Registry, tmp_path: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    base = find_base(push(registry, files()), SELECTION, cache, FetchOptions(), Progress())
    assert (base.facts.python, base.facts.version) == ("/usr/bin/python3.11", "3.11")
    layer, fit = recipes(base)
    with WorkerPool(1) as pool:
        context = Context(Store(tmp_path / "store"), cache, pool, Progress(), 1)
        made, fitted = layer.make(context), fit.make(context)
    assert made.blob.digest == base.image.layout.layers[0].digest in registry.blobs
    assert made.path.read_bytes() == registry.blobs[made.blob.digest]
    assert made.blob.media_type == "application/vnd.oci.image.layer.v1.tar+gzip"
    assert made.blob.tar_size == len(gzip.decompress(made.path.read_bytes()))
    assert fitted.blob.size > 0
    registry.blobs.clear()
    registry.manifests.clear()
    again = find_base(base.name, SELECTION, cache, FetchOptions(), Progress())
    assert recipes(again)[0].key == layer.key


def test_a_python_of_its_own_place_is_found(registry: Registry, tmp_path: Path) -> None:
    reference = push(registry, files(python="usr/local/bin/python3.11"))
    base = find_base(reference, SELECTION, LayerCache(tmp_path), FetchOptions(), Progress())
    assert base.facts.python == "/usr/local/bin/python3.11"


def test_all_that_does_not_fit_is_told_at_once(registry: Registry, tmp_path: Path) -> None:
    content = files(glibc=("GLIBC_2.31",), python="usr/bin/python3.9")
    for path in (f"{LIB}/libnuma.so.1", "usr/bin/tini"):
        del content[path]
    content["opt/venv/x"] = b""
    with pytest.raises(InvalidInput) as caught:
        find_base(push(registry, content), SELECTION, LayerCache(tmp_path), FetchOptions(), Progress())
    told = " ".join(map(str, caught.value.problems))
    for what in (
        "glibc is 2.31",
        "no Python 3.11",
        "apt-get install -y --no-install-recommends libnuma1 tini",
        "/opt/venv",
    ):
        assert what in told
    assert caught.value.exit_code == 2


def test_another_c_library_and_another_machine_are_refused(registry: Registry, tmp_path: Path) -> None:
    content = {path: data for path, data in files().items() if not path.endswith("libc.so.6")}
    with pytest.raises(InvalidInput, match=r"for arm64, not for amd64(.|\n)*no glibc"):
        find_base(push(registry, content, arch="arm64"), SELECTION, LayerCache(tmp_path), FetchOptions(), Progress())


def test_an_installer_image_needs_other_libraries(registry: Registry, tmp_path: Path) -> None:
    chosen = replace(SELECTION, fabric="installer")
    with pytest.raises(InvalidInput, match="libnl-3-200"):
        find_base(push(registry, files()), chosen, LayerCache(tmp_path), FetchOptions(), Progress())


def test_a_tag_is_no_base(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say which bytes"):
        find_base("registry.example/base:12", SELECTION, LayerCache(tmp_path), FetchOptions(), Progress())


def test_one_that_is_not_there_is_exit_3(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is not there"):
        find_base(f"{registry.host}/x@sha256:{'0' * 64}", SELECTION, LayerCache(tmp_path), FetchOptions(), Progress())
