"""The fabric layer: its recipe, its key, and what becomes of the sandbox's output."""

import contextlib
import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from slipway import pins
from slipway.errors import BuildFailed, MissingError, UsageError
from slipway.fabric import layer
from slipway.host.process import which
from slipway.layers.cache import LayerCache
from slipway.layers.entry import Entry, file_entry
from slipway.lock.model import Lock, Source
from slipway.sandbox import isolation, machine, running
from slipway.sandbox.workshop import Bench
from slipway.store.store import Store, hash_file
from tests.unit.debian.debs import make_deb, tar

ROOT = Path(__file__).parents[3]
SELECTION = pins.load(ROOT / "versions.toml").select("2.60", "cpu", "amd64")
LIB = f"./{layer.PREFIX}/lib"


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


MADE: dict[str, bytes | tarfile.TarInfo] = {
    f"{LIB}/libfabric.so.1.27.0": b"\x7fELF",
    f"{LIB}/libfabric.so.1": link(f"{LIB}/libfabric.so.1", "libfabric.so.1.27.0"),
    f"./{layer.STUBS}/libcuda.so.1": b"\x7fELF",
}


def lock_of(folder: Path, store: Store) -> Lock:
    deb, path = make_deb(folder, "gcc", {"./usr/bin/gcc": b"#!"})
    tarball = folder / "libfabric.tar.xz"
    tarball.write_bytes(b"source")
    for file in (path, tarball):
        store.add_file(file)
    source = Source("libfabric", "2.1.0", tarball.name, 6, hash_file(tarball), "trixie", "main", "pool/x")
    return Lock("2.60", "cpu", "amd64", "sha256:0", debs=(replace(deb, sets=("build",)),), sources=(source,))


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the job; collects what it was given."""
    calls: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def fake(fence: isolation.Isolation, entry: str, arguments: dict[str, Any], **_: object) -> Iterator[IO[bytes]]:
        calls.append({"fence": fence.kind, "entry": entry, **arguments})
        yield io.BytesIO(tar(MADE))

    monkeypatch.setattr(running, "job", fake)
    monkeypatch.setattr(machine, "require", lambda tools, arch: None)
    monkeypatch.setattr(isolation, "for_compiling", lambda: isolation.Isolation("none"))
    return calls


def test_two_machines_give_one_layer(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    first = layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    second = layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "b")))
    assert first.blob == second.blob
    assert first.notes["sandbox"] == "strong"
    assert {"build.sh", "fabtests.mk", "libfabric.tar.xz", "stubs/cuda.c"} <= set(jobs[0]["files"])
    assert jobs[0]["debs"] == [str(store.path(lock.debs[0].sha256))]


def test_loader_finds_what_is_there() -> None:
    entries = {entry.path: entry for entry in layer.finished([file_entry(LIB[2:] + "/libfabric.so.1", b"")])}
    config = entries["etc/ld.so.conf.d/000_efa.conf"]
    assert config.read is not None
    assert b"".join(config.read()) == b"/opt/amazon/efa/lib\n"
    assert not any("stubs" in path for path in entries)


def test_modes_and_owners_are_the_images() -> None:
    made = [
        Entry(LIB[2:] + "/libfabric.so.1", mode=0o775, uid=1000, gid=1000, read=lambda: iter(())),
        Entry(LIB[2:] + "/x.h", mode=0o664, uid=1000, gid=1000, read=lambda: iter(())),
        Entry(LIB[2:], "directory", mode=0o2775),
    ]
    entries = {entry.path: entry for entry in layer.finished(made)}
    assert entries[LIB[2:] + "/libfabric.so.1"].mode == 0o755
    assert entries[LIB[2:] + "/x.h"].mode == 0o644
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}
    assert LIB[2:] not in entries


def test_a_recipe_that_makes_no_library_is_told() -> None:
    with pytest.raises(BuildFailed, match="no libfabric"):
        layer.finished([file_entry("opt/amazon/efa/bin/fi_info", b"")])


def test_the_key(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, Store(tmp_path / "store"))
    docker = tmp_path / "docker"
    shutil.copytree(ROOT / "docker", docker)
    before = layer.key(lock, SELECTION, docker=docker)
    assert before == layer.key(lock, SELECTION, docker=ROOT / "docker")
    assert before == layer.key(replace(lock, pins="x", wheels=()), SELECTION, docker=docker)
    others = [
        layer.key(lock, SELECTION, "weak", docker),
        layer.key(replace(lock, debs=()), SELECTION, docker=docker),
        layer.key(replace(lock, sources=(replace(lock.sources[0], sha256="1"),)), SELECTION, docker=docker),
        layer.key(lock, replace(SELECTION, variant="cuda"), docker=docker),
    ]
    (docker / "cpu/stubs/cuda.c").write_text("/* libcuda.so.1: other */")
    others.append(layer.key(lock, SELECTION, docker=docker))
    (docker / "libfabric/build.sh").write_text("#!/bin/sh")
    others.append(layer.key(lock, SELECTION, docker=docker))
    assert len({before, *others}) == 7


def test_no_stubs_where_there_is_cuda() -> None:
    assert not any(name.startswith("stubs/") for name in layer.recipe(replace(SELECTION, variant="cuda")))


def test_without_namespaces_only_who_says_weak_gets_a_layer(
    tmp_path: Path, jobs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> isolation.Isolation:
        raise MissingError("no namespaces", remedy="--sandbox=weak")

    monkeypatch.setattr(isolation, "for_compiling", refuse)
    monkeypatch.setattr(isolation, "without_namespaces", lambda missing: isolation.Isolation("none"))
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    with pytest.raises(MissingError, match="no namespaces"):
        layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    made = layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a"), sandbox="weak"))
    assert made.notes == {"sandbox": "weak", "network": "not taken away"}
    with pytest.raises(UsageError, match="no sandbox is called 'strng'"):
        layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a"), sandbox="strng"))


def test_the_recipe_is_shell() -> None:
    subprocess.run(["bash", "-n", str(ROOT / "docker/libfabric/build.sh")], check=True)


STUBS = sorted((ROOT / "docker/cpu/stubs").glob("*.c"))


@pytest.mark.parametrize("source", STUBS, ids=lambda path: path.name)
def test_a_stub_names_its_file_and_defines_each_function_once(source: Path) -> None:
    text = source.read_text()
    assert re.match(r"/\* lib[a-z]+\.so\.\d+: ", text)
    defined = re.findall(r"^NO_DEVICE\((\w+)\)$|^\w[\w *]*?(cu\w+)\([^)]*\)\n\{", text, re.MULTILINE)
    names = [a or b for a, b in defined]
    assert len(names) == len(set(names)) > 20


@pytest.mark.skipif(which("gcc") is None, reason="gcc is not on this machine")
@pytest.mark.parametrize("source", STUBS, ids=lambda path: path.name)
def test_a_stub_compiles_and_says_no_device(tmp_path: Path, source: Path) -> None:
    import ctypes

    library = tmp_path / "stub.so"
    flags = ["-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-nostdlib"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
    stub = ctypes.CDLL(str(library))
    count = ctypes.c_int(7)
    name = "cuDeviceGetCount" if source.name == "cuda.c" else "cudaGetDeviceCount"
    assert (getattr(stub, name)(ctypes.byref(count)), count.value) == (100, 0)
