"""A whole CUDA image whose fabric comes from an EFA installer: gates and all, with a STAND-IN tarball.

The tarball is made here, in the layout of Amazon's: libfabric as this project compiles it from Debian's source, packed
as Amazon names it, beside Debian's own packages of rdma-core, byte for byte, and an Open MPI that must stay out. None
of it is Amazon's, so this proves how packages are unpacked and what the image becomes, and nothing of their content.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.assemble import Image, Request, assemble, plan, read_lock
from slipway.cli.common import ROOT, cache_home
from slipway.errors import BuildFailed
from slipway.fabric import installer
from slipway.fabric import layer as source
from slipway.inspect.image import read_image
from slipway.inspect.layout import LayerRef, open_layout
from slipway.inspect.stream import LayerStream
from slipway.inspect.untar import TarReader
from slipway.layers.cache import CachedLayer, LayerCache
from slipway.lock.model import EfaInstaller, Lock
from slipway.pins import load
from slipway.pins.model import Installer, Selection
from slipway.progress import Progress
from slipway.store import Store
from slipway.store.fetch import FetchOptions
from slipway.store.store import hash_file
from tests.container.builds import default_cache
from tests.unit.fabric.standin import WHY, package, tarball
from tests.unit.fabric.test_layer import link

SMALL = 50_000_000
"""Bytes of wheels that may be made into layers on the way: serve_app's, and what was bumped since."""

RDMA = ("ibverbs-providers", "libibverbs1", "librdmacm1")


@pytest.fixture(scope="module")
def store() -> Store:
    return Store(cache_home() / "store")


@pytest.fixture(scope="module")
def compiled(store: Store) -> tuple[Selection, Lock, CachedLayer]:
    """The CUDA image's pins with libfabric from source, and that layer."""
    selection = load(ROOT / "versions.toml").select(None, "cuda")
    lock = read_lock(selection)
    cache = LayerCache(default_cache())
    layer = cache.get(source.key(lock, selection))
    asked = Request(selection, lock, ROOT, store, cache, ROOT / "out", FetchOptions(), 1)
    if (
        layer is None
        or store.missing(lock.downloads)
        or sum(artifact.size for artifact in plan(asked)[0].artifacts) > SMALL
    ):
        pytest.skip("no CUDA image has been built here: python3 build.py build --variant cuda")
    return selection, lock, layer


def files(layer: CachedLayer) -> Iterator[tuple[str, object]]:
    blob = layer.blob
    ref = LayerRef(0, "fabric", blob.digest, blob.size, blob.media_type, blob.diff_id, layer.path)
    with layer.path.open("rb") as file:
        reader = TarReader(LayerStream(ref, file), "fabric")
        for member in reader:
            if member.kind == "file" and member.path.startswith("opt/amazon/"):
                yield f"./{member.path}", b"".join(reader.content())
            elif member.kind == "symlink" and member.path.startswith("opt/amazon/"):
                yield f"./{member.path}", link(f"./{member.path}", member.target)


@pytest.fixture(scope="module")
def image(
    compiled: tuple[Selection, Lock, CachedLayer], store: Store, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Image, Request]:
    folder = tmp_path_factory.mktemp("installer")
    selection, lock, layer = compiled
    debs = {deb.name: deb for deb in lock.debs_for("image")}
    content = {
        "libfabric1-aws_2.1.0_amd64.deb": package("libfabric1-aws", dict(files(layer)), {"postinst": "ldconfig\n"}),  # type: ignore[arg-type]
        "openmpi40-aws_4_amd64.deb": package("openmpi40-aws", {"./opt/amazon/openmpi/bin/mpirun": b"#!/bin/sh\n"}),
        **{f"rdma-core/{debs[name].file}": store.checked(debs[name]).read_bytes() for name in RDMA},
    }
    file = tarball(folder / "aws-efa-installer-0.tar.gz", content)
    pin = Installer("0", file.name, hash_file(file), file.stat().st_size, stand_in=WHY)
    image_debs = tuple(sorted({*selection.debs["image"], "libnl-3-200", "libnl-route-3-200"} - set(RDMA)))
    chosen = replace(selection, fabric="installer", installer=pin, debs={"image": image_debs})
    changed = replace(
        lock,
        pins=chosen.checksum,
        debs=tuple(replace(deb, sets=("image",)) for name, deb in sorted(debs.items()) if name not in RDMA),
        sources=(),
        installers=(EfaInstaller("aws-efa-installer", "0", pin.file, pin.size, pin.sha256),),
    )
    store.add_file(file)
    request = Request(chosen, changed, ROOT, store, LayerCache(default_cache()), folder / "out", FetchOptions(), 2)
    return assemble(request, Progress()), request


def test_gates_pass_and_only_the_layers_below_differ(image: tuple[Image, Request]) -> None:
    built, _ = image
    assert set(built.made) <= {"debian", "fabric", "ldcache", "share"}


def test_the_image_says_that_it_is_no_production_one(image: tuple[Image, Request]) -> None:
    built, _ = image
    labels = open_layout(built.folder).labels
    assert (labels["io.slipway.fabric"], labels["io.slipway.nccl-over-efa"]) == ("stand-in", "no")
    assert built.reference == f"slipway:{labels['io.slipway.release']}-cuda-stand-in-fabric"


def test_one_libfabric_one_libibverbs_and_no_mpi(image: tuple[Image, Request]) -> None:
    built, request = image
    found = read_image(built.folder, cache=request.cache.root / "inspect" / "layers")
    assert [node.path for node in found.loader.by_soname["libfabric.so.1"]] != []
    assert len(found.loader.by_soname["libfabric.so.1"]) == len(found.loader.by_soname["libibverbs.so.1"]) == 1
    paths = [node.path for node in found.tree.files()]
    assert not any("openmpi" in path or path.endswith(("/ssh", "/sshd")) for path in paths)
    assert not any(package.name in RDMA for package in found.packages)


def test_the_bill_is_in_the_image(image: tuple[Image, Request]) -> None:
    built, request = image
    layer = request.cache.get(installer.key(request.lock, request.selection))
    assert layer is not None
    assert {taken["package"] for taken in layer.notes["packages"]} == {"libfabric1-aws", *RDMA}
    assert json.dumps(layer.notes["packages"]).count("ldcache") >= 1
    assert built.digest.startswith("sha256:")


def test_the_same_tarball_is_refused_where_the_pin_does_not_call_it_a_stand_in(
    image: tuple[Image, Request], tmp_path: Path
) -> None:
    _, request = image
    pin = request.selection.installer
    assert pin is not None
    production = replace(request.selection, installer=replace(pin, stand_in=""))
    asked = replace(request, selection=production, output=tmp_path / "out")
    with pytest.raises(BuildFailed, match="is a stand-in"):
        assemble(asked, Progress())
