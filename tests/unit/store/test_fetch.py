"""A whole fetch against servers and folders of this machine; neither pip nor apt is asked."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from slipway.errors import MissingError, WrongArtifact
from slipway.lock.model import Artifact, Deb, Lock, Source, Wheel
from slipway.progress import PlainProgress
from slipway.sources import choose
from slipway.sources.apt import Archive
from slipway.sources.mirrors import Mirrors
from slipway.sources.pip import PipConfig
from slipway.sources.settings import HttpSettings
from slipway.store import Store
from slipway.store import fetch as fetch_module
from slipway.store.fetch import FetchOptions, fetch
from slipway.store.report import ArtifactsUnreachable, ArtifactsWrong
from tests.unit.store.conftest import FAST
from tests.unit.store.server import Server, serving

WHEEL = b"a wheel" * 1000
DEB = b"a deb" * 1000
SECURE = b"a security update" * 1000
TARBALL = b"a tarball" * 1000


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def a_wheel(content: bytes = WHEEL, name: str = "thing", version: str = "1.0") -> Wheel:
    return Wheel(name, version, f"{name}-{version}-py3-none-any.whl", len(content), sha(content))


def a_deb(content: bytes = DEB, name: str = "bash", version: str = "5.2-1", suite: str = "bookworm") -> Deb:
    file = f"{name}_{version}_amd64.deb"
    updates = "updates/" if suite.endswith("-security") else ""
    path = f"pool/{updates}main/{name[0]}/{name}/{file}"
    return Deb(name, version, file, len(content), sha(content), suite, "main", path, "amd64")


def a_source() -> Source:
    path = "pool/main/libf/libfabric/libfabric_2.1.0.orig.tar.xz"
    return Source("libfabric", "2.1.0", path.rpartition("/")[2], len(TARBALL), sha(TARBALL), "trixie", "main", path)


def a_lock(*artifacts: Artifact) -> Lock:
    return Lock(
        "2.60",
        "cpu",
        "amd64",
        f"sha256:{'0' * 64}",
        tuple(a for a in artifacts if isinstance(a, Wheel)),
        tuple(a for a in artifacts if isinstance(a, Deb)),
        tuple(a for a in artifacts if isinstance(a, Source)),
    )


def publish(server: Server, artifact: Artifact, content: bytes, hashed: str | None = None) -> None:
    """Put an artifact where its kind of mirror has it: below /debian, /debian-security, or on an index at /simple."""
    if isinstance(artifact, Wheel):
        fragment = f"#sha256={hashed}" if hashed else ""
        page = f'<a href="../../files/{artifact.file}{fragment}">{artifact.file}</a>'.encode()
        server.put(f"/simple/{artifact.name}/", page, content_type="text/html")
        server.put(f"/files/{artifact.file}", content)
    elif isinstance(artifact, Deb | Source):
        root = "/debian-security" if artifact.suite.endswith("-security") else "/debian"
        server.put(f"{root}/{artifact.path}", content)


def options(server: Server | None = None, **changes: object) -> FetchOptions:
    mirrors = Mirrors()
    if server is not None:
        mirrors = Mirrors(wheels=(f"{server.url}/simple",), debian=(f"{server.url}/debian",))
    return FetchOptions(**{"mirrors": mirrors, "policy": FAST, **changes})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which neither pip nor apt is configured with anything."""
    monkeypatch.setattr(choose.pip, "ask", lambda **_options: PipConfig())
    monkeypatch.setattr(choose.apt, "ask_config", HttpSettings)
    monkeypatch.setattr(choose.apt, "configured", list)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)


ALL = ((a_wheel(), WHEEL), (a_deb(), DEB), (a_deb(SECURE, "libc6", "2-1", "bookworm-security"), SECURE))
ALL_AND_SOURCE = (*ALL, (a_source(), TARBALL))


def test_everything_from_mirrors_then_nothing_any_more(store: Store, server: Server) -> None:
    lock = a_lock(*(artifact for artifact, _content in ALL_AND_SOURCE))
    for artifact, content in ALL_AND_SOURCE:
        publish(server, artifact, content)
    result = fetch(lock, store, options(server))
    assert (result.wanted, result.present, result.fetched) == (4, 0, 4)
    for artifact, content in ALL_AND_SOURCE:
        assert store.checked(artifact).read_bytes() == content
    asked = len(server.seen)
    again = fetch(lock, store, options(server))
    assert (again.present, again.fetched) == (4, 0)
    assert len(server.seen) == asked


def test_wheels_that_the_driver_makes_are_not_looked_for(store: Store) -> None:
    made = Wheel("vllm", "1", "vllm-1-py3-none-any.whl", 1, "0" * 64, made=True)
    assert fetch(a_lock(made), store, options()).wanted == 0


@pytest.mark.parametrize("as_name", ["{file}", "sub/dir/{file}", "{sha256}", "renamed.bin", "thing-1.0%2Dpy3.whl"])
def test_from_a_folder_by_name_or_hash(store: Store, tmp_path: Path, as_name: str) -> None:
    wheel = a_wheel()
    path = tmp_path / "carried" / as_name.format(file=wheel.file, sha256=wheel.sha256)
    path.parent.mkdir(parents=True)
    path.write_bytes(WHEEL)
    (tmp_path / "carried" / "same-size").write_bytes(b"?" * len(WHEEL))
    result = fetch(a_lock(wheel), store, options(folders=(tmp_path / "carried",)))
    assert result.origins == {f"folder {tmp_path / 'carried'}": 1}


def test_a_folder_comes_before_the_network(store: Store, server: Server, tmp_path: Path) -> None:
    wheel = a_wheel()
    publish(server, wheel, WHEEL)
    (tmp_path / wheel.file).write_bytes(WHEEL)
    fetch(a_lock(wheel), store, options(server, folders=(tmp_path,)))
    assert server.seen == []


def test_a_folder_that_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is not a folder"):
        fetch(a_lock(a_wheel()), store, options(folders=(tmp_path / "none",)))


def test_a_wrong_file_in_a_folder_is_told_when_the_right_one_comes_from_elsewhere(
    store: Store, server: Server, tmp_path: Path
) -> None:
    wheel = a_wheel()
    publish(server, wheel, WHEEL)
    (tmp_path / wheel.file).write_bytes(b"other")
    said = io.StringIO()
    fetch(a_lock(wheel), store, options(server, folders=(tmp_path,)), PlainProgress(said))
    assert "another file under this name" in said.getvalue()
    assert sha(b"other") in said.getvalue() and wheel.sha256 in said.getvalue()


@pytest.mark.parametrize("layout", ["{file}", "thing/{file}"])
def test_a_mirror_may_be_a_folder(store: Store, tmp_path: Path, layout: str) -> None:
    wheel = a_wheel()
    path = tmp_path / layout.format(file=wheel.file)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(WHEEL)
    fetch(a_lock(wheel), store, options(mirrors=Mirrors(wheels=(str(tmp_path),))))
    assert store.has(wheel)


def test_a_mirror_may_be_a_plain_file_server(store: Store, server: Server) -> None:
    wheel = a_wheel(version="1.0+cpu")
    server.put("/wheels/thing-1.0%2Bcpu-py3-none-any.whl", WHEEL)
    fetch(a_lock(wheel), store, options(mirrors=Mirrors(wheels=(f"{server.url}/wheels",))))
    assert store.has(wheel)


def test_local_versions_are_asked_of_pytorchs_index(
    store: Store, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    special, plain = a_wheel(version="1.0+cpu"), a_wheel(b"plain", "plain")
    publish(server, special, WHEEL)
    server.put("/pip/plain/", f'<a href="/{plain.file}">x</a>'.encode(), content_type="text/html")
    server.put(f"/{plain.file}", b"plain")
    monkeypatch.setattr(choose.pip, "ask", lambda **_options: PipConfig(index=f"{server.url}/pip"))
    defaults = fetch_module.Sources(pytorch=f"{server.url}/simple")
    fetch(a_lock(special, plain), store, FetchOptions(defaults=defaults, policy=FAST))
    assert store.has(special) and store.has(plain)
    assert server.asked("/simple/plain/") == []


def test_json_pages(store: Store, server: Server) -> None:
    wheel = a_wheel()
    page = {"files": [{"filename": wheel.file, "url": "../../x/y", "hashes": {"sha256": wheel.sha256.upper()}}]}
    kind = "application/vnd.pypi.simple.v1+json"
    server.put("/simple/thing/", json.dumps(page).encode(), content_type=kind)
    server.put("/x/y", WHEEL)
    fetch(a_lock(wheel), store, options(server))
    assert store.has(wheel)


def test_damage_that_kept_size_and_mtime_is_mended(store: Store, server: Server) -> None:
    wheel = a_wheel()
    publish(server, wheel, WHEEL)
    fetch(a_lock(wheel), store, options(server))
    path = store.path(wheel.sha256)
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"X" + WHEEL[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = io.StringIO()
    result = fetch(a_lock(wheel), store, options(server), PlainProgress(said))
    assert result.mended == [wheel.sha256]
    assert store.checked(wheel).read_bytes() == WHEEL
    assert sha(b"X" + WHEEL[1:]) in said.getvalue() and wheel.sha256 in said.getvalue()


def test_rehash_notices_even_what_no_stamp_shows(store: Store, server: Server) -> None:
    """A disk that lies: the stamp is made to fit the damaged file."""
    wheel = a_wheel()
    publish(server, wheel, WHEEL)
    fetch(a_lock(wheel), store, options(server))
    path = store.path(wheel.sha256)
    path.chmod(0o644)
    path.write_bytes(b"X" + WHEEL[1:])
    fetch_module.stamp.write(store.stamp(wheel.sha256), path)
    assert fetch(a_lock(wheel), store, options(server)).mended == []
    assert fetch(a_lock(wheel), store, options(server, rehash=True)).mended == [wheel.sha256]
    assert store.checked(wheel).read_bytes() == WHEEL


def packages(*debs: Deb) -> bytes:
    return "\n".join(f"Package: {d.name}\nVersion: {d.version}\nFilename: {d.path}\n" for d in debs).encode()


@pytest.mark.parametrize("ending", [".xz", ".gz", ""])
def test_gone_names_package_locked_and_offered_version_and_what_to_do(
    store: Store, server: Server, ending: str
) -> None:
    wheel, deb = a_wheel(), a_deb()
    newer = a_wheel(b"newer", version="1.10")
    publish(server, newer, b"newer")
    pack = {".xz": lzma.compress, ".gz": gzip.compress, "": bytes}[ending]
    index = pack(packages(a_deb(b"", "dash", "9-9"), a_deb(b"", version="5.2-1+deb12u1")))
    server.put(f"/debian/dists/bookworm/main/binary-amd64/Packages{ending}", index)
    with pytest.raises(ArtifactsWrong) as caught:
        fetch(a_lock(wheel, deb), store, options(server))
    assert caught.value.exit_code == 4
    text = str(caught.value)
    for part in ("bash", "5.2-1", "5.2-1+deb12u1", "lock --upgrade debian"):
        assert part in text
    for part in ("thing", "1.0", "1.10", "lock --upgrade thing", f"{server.url}/simple/thing/"):
        assert part in text
    findings = {finding.artifact.name: finding for finding in caught.value.findings}
    assert {name: finding.kind for name, finding in findings.items()} == {"bash": "gone", "thing": "gone"}
    assert json.dumps(caught.value.as_json())


def test_what_can_be_had_is_fetched_even_when_something_else_is_gone(store: Store, server: Server) -> None:
    wheel, deb = a_wheel(), a_deb()
    publish(server, wheel, WHEEL)
    with pytest.raises(ArtifactsWrong):
        fetch(a_lock(wheel, deb), store, options(server))
    assert store.has(wheel)


def test_other_bytes_under_the_name(store: Store, server: Server) -> None:
    wheel, deb = a_wheel(), a_deb()
    publish(server, deb, b"other bytes")
    publish(server, wheel, WHEEL, hashed=sha(b"other"))
    with pytest.raises(WrongArtifact) as caught:
        fetch(a_lock(wheel, deb), store, options(server))
    text = str(caught.value)
    for part in (deb.sha256, sha(b"other bytes"), f"{server.url}/debian/{deb.path}"):
        assert part in text
    for part in (wheel.sha256, sha(b"other"), f"{server.url}/files/{wheel.file}"):
        assert part in text
    assert server.asked(f"/files/{wheel.file}") == []  # the index said so already


def test_a_flipped_nibble_in_the_lock(store: Store, server: Server) -> None:
    deb = a_deb()
    publish(server, deb, DEB)
    flipped = ("0" if deb.sha256[0] != "0" else "1") + deb.sha256[1:]
    wrong = Deb(deb.name, deb.version, deb.file, deb.size, flipped, deb.suite, deb.component, deb.path, deb.arch)
    with pytest.raises(WrongArtifact) as caught:
        fetch(a_lock(wrong), store, options(server))
    assert flipped in str(caught.value) and deb.sha256 in str(caught.value)


def test_unreachable_is_told_apart_from_gone(store: Store) -> None:
    with serving() as gone:
        pass
    with pytest.raises(ArtifactsUnreachable) as caught:
        fetch(a_lock(a_wheel(), a_deb()), store, options(gone))
    assert caught.value.exit_code == 3
    assert "proxy" in str(caught.value)


def test_mirrors_are_tried_in_order(store: Store, server: Server) -> None:
    deb = a_deb()
    server.put(f"/second/{deb.path}", DEB)
    mirrors = Mirrors(debian=(f"{server.url}/first", f"{server.url}/second"))
    fetch(a_lock(deb), store, options(mirrors=mirrors))
    assert [path for _method, path, _range in server.seen] == [f"/first/{deb.path}", f"/second/{deb.path}"]


def test_apts_archives_those_with_the_suite_first(
    store: Store, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    deb = a_deb(SECURE, suite="bookworm-security")
    server.put(f"/secure/{deb.path}", SECURE)
    archives = [
        Archive("https://download.example.com/linux/debian", ("bookworm",), ("stable",)),
        Archive(f"{server.url}/main", ("bookworm", "bookworm-updates"), ("main",)),
        Archive(f"{server.url}/secure", ("bookworm-security",), ("main",)),
    ]
    monkeypatch.setattr(choose.apt, "configured", lambda: archives)
    fetch(a_lock(deb), store, FetchOptions(policy=FAST))
    assert [path for _method, path, _range in server.seen] == [f"/secure/{deb.path}"]


def test_a_security_update_that_a_point_release_took_over(store: Store, server: Server) -> None:
    deb = a_deb(SECURE, suite="bookworm-security")
    server.put("/debian/" + deb.path.replace("updates/", ""), SECURE)
    fetch(a_lock(deb), store, options(server))
    assert store.has(deb)


def test_a_local_archive(store: Store, tmp_path: Path) -> None:
    deb = a_deb()
    (tmp_path / deb.path).parent.mkdir(parents=True)
    (tmp_path / deb.path).write_bytes(DEB)
    fetch(a_lock(deb), store, options(mirrors=Mirrors(debian=(str(tmp_path),))))
    assert store.has(deb)


def test_a_snapshot_with_a_time(store: Store, server: Server) -> None:
    deb = a_deb()
    server.put(f"/archive/debian/20261130T120000Z/{deb.path}", DEB)
    snapshot = f"{server.url}/archive/debian/20261130T120000Z/"
    fetch(a_lock(deb), store, options(mirrors=Mirrors(debian=(f"{server.url}/debian",), snapshot=(snapshot,))))
    assert store.has(deb)


def test_a_snapshot_service(store: Store, server: Server) -> None:
    deb, source = a_deb(version="1:5.2-1"), a_source()
    old, new = "a" * 40, "b" * 40
    info = {"fileinfo": {old: [{"name": "other.deb", "size": 1}], new: [{"name": deb.file, "size": deb.size}]}}
    server.put("/mr/binary/bash/1%3A5.2-1/binfiles", json.dumps(info).encode(), content_type="application/json")
    server.put(f"/file/{new}", DEB)
    versions = {"result": [{"version": "2.1.0-1.1"}, {"version": "1.0-1"}]}
    server.put("/mr/package/libfabric/", json.dumps(versions).encode())
    files = {"fileinfo": {"c" * 40: [{"name": source.file, "size": source.size}]}}
    server.put("/mr/package/libfabric/2.1.0-1.1/srcfiles", json.dumps(files).encode())
    server.put(f"/file/{'c' * 40}", TARBALL)
    mirrors = Mirrors(debian=(f"{server.url}/debian",), snapshot=(server.url,))
    fetch(a_lock(deb, source), store, options(mirrors=mirrors))
    assert store.has(deb) and store.has(source)


def test_no_archive_known_says_what_to_install(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(tools: object) -> None:
        raise MissingError("this machine lacks python-apt-common")

    monkeypatch.setattr(choose.host_apt, "ensure", ensure)
    with pytest.raises(MissingError, match="python-apt-common"):
        fetch(a_lock(a_deb()), store, FetchOptions())


Usage = namedtuple("Usage", "total used free")


def test_a_disk_that_is_too_small_is_noticed_before_anything_is_asked(
    store: Store, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(10, 0, len(WHEEL) - 1))
    with pytest.raises(MissingError, match=f"{len(WHEEL)} bytes") as caught:
        fetch(a_lock(a_wheel()), store, options(server))
    assert "store prune" in str(caught.value)
    assert server.seen == []


def test_leftovers_of_long_ago_are_removed(store: Store, server: Server) -> None:
    publish(server, a_wheel(), WHEEL)
    old, new = store.root / "part" / ("a" * 64), store.root / "part" / ("b" * 64)
    old.parent.mkdir(parents=True)
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    os.utime(old, (0, 0))
    fetch(a_lock(a_wheel()), store, options(server))
    assert not old.exists() and new.exists()


PROGRAM = """
import sys
from pathlib import Path
from slipway.lock.model import Deb, Lock
from slipway.sources import choose
from slipway.sources.mirrors import Mirrors
from slipway.sources.settings import HttpSettings
from slipway.store import Store
from slipway.store.fetch import FetchOptions, fetch
choose.apt.ask_config = HttpSettings
root, url, size, sha256 = sys.argv[1:]
deb = Deb("bash", "1", "bash_1_amd64.deb", int(size), sha256, "bookworm", "main", "pool/bash_1_amd64.deb", "amd64")
print("ready", flush=True)
result = fetch(Lock("", "", "", "", (), (deb,)), Store(Path(root)), FetchOptions(mirrors=Mirrors(debian=(url,))))
print(result.fetched, flush=True)
"""


def start(store: Store, server: Server, content: bytes) -> subprocess.Popen[str]:
    """A fetch in a process of its own, once it is about to begin."""
    argv = [sys.executable, "-c", PROGRAM, str(store.root), server.url, str(len(content)), sha(content)]
    root = Path(fetch_module.__file__).parents[2]
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        # A shell's background ignores SIGINT, and so would the process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def rest(process: subprocess.Popen[str]) -> str:
    """What it says to its end. Not communicate(): that loses what readline() has read ahead."""
    assert process.stdout is not None
    with process:
        return process.stdout.read().strip()


def wait_for_bytes(store: Store, content: bytes) -> None:
    part = store.root / "part" / sha(content)
    until = time.monotonic() + 30
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < until
        time.sleep(0.01)


LARGE = DEB * 100


def test_two_processes_download_once(store: Store, server: Server) -> None:
    server.put("/pool/bash_1_amd64.deb", LARGE, chunk=50_000, pause=0.05)
    processes = [start(store, server, LARGE) for _ in range(2)]
    assert sorted(rest(process) for process in processes) == ["0", "1"]
    assert len(server.asked("/pool/bash_1_amd64.deb")) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_moment_the_next_run_goes_on(store: Store, server: Server, how: signal.Signals) -> None:
    file = server.put("/pool/bash_1_amd64.deb", LARGE, chunk=20_000, pause=0.05)
    process = start(store, server, LARGE)
    wait_for_bytes(store, LARGE)
    began = time.monotonic()
    process.send_signal(how)
    process.wait(timeout=10)
    assert time.monotonic() - began < 8
    assert process.returncode != 0
    assert not store.path(sha(LARGE)).exists()
    file.pause = 0
    again = start(store, server, LARGE)
    assert rest(again) == "1"
    assert server.asked("/pool/bash_1_amd64.deb")[1].startswith("bytes=")
    assert store.path(sha(LARGE)).read_bytes() == LARGE
