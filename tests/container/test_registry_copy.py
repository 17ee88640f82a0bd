"""The registry copy against the registry that Debian ships (docker-registry), also over a connection that breaks."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.lock.model import Lock, Source
from slipway.registry.client import Repository
from slipway.registry.copy import ARTIFACT_TYPE, push_artifacts
from slipway.registry.reference import parse_reference
from slipway.sources.http import Http
from slipway.sources.mirrors import Mirrors
from slipway.store import Store
from slipway.store.fetch import FetchOptions, fetch

CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[int]:
    """The port of a registry that is empty and stops with the test."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed (apt-get install docker-registry)")
    port = free_port()
    config = tmp_path / "registry.yml"
    config.write_text(CONFIG.format(folder=tmp_path / "registry", port=port))
    process = subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None and time.monotonic() < until, "docker-registry does not start"
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(10)


class BreakingRelay:
    """Passes connections on; the first ones are cut when so many bytes have gone towards the server, or come back."""

    def __init__(self, port: int, cuts: list[tuple[str, int]]) -> None:
        self._target = port
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.broken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            way, limit = self._cuts.pop(0) if self._cuts else ("", 0)
            cut = threading.Event()
            for source, sink, name in ((client, server, "up"), (server, client, "down")):
                arguments = (source, sink, limit if name == way else None, cut)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, limit: int | None, cut: threading.Event) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                if limit is not None and passed + len(data) > limit:
                    sink.sendall(data[: limit - passed])
                    self.broken += 1
                    cut.set()
                    for end in (source, sink):  # wakes the other direction, too
                        end.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)
                passed += len(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            if cut.is_set():
                source.close()  # with bytes unread: a reset


def a_lock(store: Store, sizes: list[int]) -> Lock:
    """Made-up artifacts, all of them in the store."""
    rows = []
    for number, size in enumerate(sizes):
        content = random.Random(number).randbytes(size)  # noqa: S311
        name, file = f"thing{number}", f"thing{number}_1.orig.tar.xz"
        rows.append(Source(name, "1", file, size, store.add_bytes(content), "bookworm", "main", f"pool/{file}"))
    return Lock("2.60", "cpu", "amd64", "", sources=tuple(rows))


def test_there_and_back(registry: int, tmp_path: Path) -> None:
    full, empty = Store(tmp_path / "full"), Store(tmp_path / "empty")
    lock = a_lock(full, [0, 1, 100, 5_000_000, 5_000_000, *range(1000, 1060)])
    reference = f"127.0.0.1:{registry}/team/artifacts:2.60-cpu"
    digest = push_artifacts(lock, full, reference)
    assert push_artifacts(lock, full, reference) == digest
    found = Repository(parse_reference(reference), Http()).manifest()
    assert found.digest == digest and ARTIFACT_TYPE.encode() in found.content
    nowhere = Mirrors(debian=(str(tmp_path),))
    result = fetch(lock, empty, FetchOptions(registry_copy=reference, mirrors=nowhere))
    assert result.fetched == len(lock.sources)
    for artifact in lock.sources:
        assert empty.checked(artifact)


def test_over_a_connection_that_breaks(registry: int, tmp_path: Path) -> None:
    full, empty = Store(tmp_path / "full"), Store(tmp_path / "empty")
    lock = a_lock(full, [30_000_000])
    up = BreakingRelay(registry, [("up", 10_000_000), ("up", 7_000_000)])
    down = BreakingRelay(registry, [("down", 10_000_000), ("down", 7_000_000)])
    try:
        push_artifacts(lock, full, f"127.0.0.1:{up.port}/team/artifacts:1")
        assert up.broken == 2
        options = FetchOptions(
            registry_copy=f"127.0.0.1:{down.port}/team/artifacts", mirrors=Mirrors(debian=(str(tmp_path),))
        )
        assert fetch(lock, empty, options).fetched == 1
        assert down.broken == 2
    finally:
        up.close()
        down.close()
