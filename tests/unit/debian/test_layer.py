"""The Debian layer as a whole, with mmdebstrap's tar made by hand."""

import contextlib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
import zstandard

from slipway import pins
from slipway.debian import bootstrap, layer
from slipway.errors import BuildFailed, WrongArtifact
from slipway.layers.cache import LayerCache
from slipway.lock.model import Lock
from slipway.sandbox import isolation, machine, running
from slipway.sandbox.workshop import Bench
from slipway.store.store import Store
from tests.unit.debian.debs import make_deb, tar
from tests.unit.debian.test_sources import ONE_LINE

SELECTION = pins.load(Path(__file__).parents[3] / "versions.toml").select("2.60", "cpu", "amd64")
TREE = {
    "./etc/passwd": b"root:x:0:0:root:/root:/bin/bash\n",
    "./etc/shadow": b"root:*:20000:0:99999:7:::\n",
    "./etc/hostname": b"builder\n",
    "./usr/bin/bash": b"#!",
    "./usr/share/keyrings/debian-archive-keyring.gpg": b"",
    "./var/lib/dpkg/status": b"Package: bash\n\nPackage: apt\n\n",
}


def lock_of(folder: Path, store: Store) -> Lock:
    pairs = [
        make_deb(folder, "apt", {"./usr/share/doc/apt/examples/sources.list": ONE_LINE.encode()}),
        make_deb(folder, "bash", {"./usr/bin/bash": b"#!"}),
    ]
    for _, path in pairs:
        store.add_file(path)
    return Lock("2.60", "cpu", "amd64", "sha256:0", debs=tuple(deb for deb, _ in pairs))


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the job; collects what it was given."""
    calls: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def fake(fence: object, entry: str, arguments: dict[str, Any], **_: object) -> Iterator[IO[bytes]]:
        archive = Path(arguments["root"]).parent / "archive"
        index = (archive / "dists/slipway/main/binary-amd64/Packages").read_text()
        calls.append({"entry": entry, "index": index, **arguments})
        yield io.BytesIO(tar(TREE))

    monkeypatch.setattr(running, "job", fake)
    monkeypatch.setattr(machine, "require", lambda tools, arch: None)
    monkeypatch.setattr(isolation, "for_owners", lambda: isolation.Isolation("none"))
    return calls


def test_two_machines_give_one_layer(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    first = layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    second = layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "somewhere else")))
    assert first.blob == second.blob
    assert first.key == second.key == layer.key(lock, SELECTION)
    assert len(jobs) == 2
    layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    assert len(jobs) == 2
    with zstandard.open(first.path, "rb") as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        names = [member.name for member in archive]
    assert "etc/hostname" not in names
    assert {"usr/bin/bash", "home/ray", "etc/apt/sources.list.d/debian.sources", "usr/sbin/policy-rc.d"} <= set(names)
    assert not list((tmp_path / "a" / "work").glob("slipway-work-*"))


def test_mmdebstrap_gets_exactly_the_locked_packages(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    (call,) = jobs
    assert "--include=apt=1-1,bash=1-1" in call["argv"]
    assert all(deb.sha256 in call["index"] for deb in lock.debs)
    assert not any("http" in word for word in call["argv"])


def test_a_damaged_package_is_told_with_both_hashes(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    path = store.path(lock.debs[1].sha256)
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(WrongArtifact, match=lock.debs[1].sha256):
        layer.build(lock, SELECTION, Bench(store, LayerCache(tmp_path / "a")))
    assert not jobs


def test_without_apt_there_is_no_image(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    store = Store(tmp_path / "store")
    lock = lock_of(tmp_path, store)
    with pytest.raises(BuildFailed, match="no apt package"):
        layer.build(replace(lock, debs=lock.debs[1:]), SELECTION, Bench(store, LayerCache(tmp_path / "a")))


def test_the_key_knows_what_is_written_and_nothing_else(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, Store(tmp_path / "store"))
    files = tmp_path / "files"
    files.mkdir()
    before = layer.key(lock, SELECTION, files)
    assert layer.key(replace(lock, pins="sha256:1"), SELECTION, files) == before
    assert layer.key(lock, replace(SELECTION, wheels=()), files) == before
    others = [
        layer.key(replace(lock, debs=lock.debs[:1]), SELECTION, files),
        layer.key(lock, replace(SELECTION, setuid={"usr/bin/su": "why"}), files),
        layer.key(lock, replace(SELECTION, suite="trixie"), files),
    ]
    (files / "hello").write_text("x")
    others.append(layer.key(lock, SELECTION, files))
    assert len({before, *others}) == 5


def test_the_hook_makes_links_into_usr_and_settings(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", bootstrap.setup_script("amd64"), "exec", str(tmp_path)], check=True)
    assert (tmp_path / "lib64").readlink() == Path("usr/lib64")
    assert (tmp_path / "bin").is_dir()
    config = (tmp_path / bootstrap.BUILD_CONFIG).read_text().splitlines()
    assert "path-exclude=/usr/share/doc/*" in config
    assert config.index("path-include=/usr/share/doc/*/copyright") > config.index("path-exclude=/usr/share/doc/*")
    assert bootstrap.merged_links("arm64") == ("bin", "sbin", "lib")


def test_a_folder_of_any_name_can_hold_the_archive() -> None:
    argv = bootstrap.arguments(["a=1"], Path("/home/x y/ü,1"), "amd64")
    assert argv[-1] == "deb [trusted=yes] copy:/home/x%20y/%C3%BC%2C1 slipway main"
