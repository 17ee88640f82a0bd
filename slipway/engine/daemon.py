"""An engine of our own: dockerd in folders of its own, stopped by process id, the machine's firewall left alone.

It runs with iptables, ip6tables and IP forwarding off, so there is nothing to put back, however it ends. What that
costs: containers on its bridge reach this machine and each other, but not the world; a container that has to
download runs with `--network host`. Published ports work, through docker-proxy.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from slipway.engine import bridge
from slipway.engine.find import probe
from slipway.engine.model import Engine
from slipway.errors import MissingError
from slipway.host import process

START_SECONDS = 60.0
STOP_SECONDS = 45.0
RUNTIME = Path("/run")
"""Sockets and pid files lie below it: the path of a socket may have 108 bytes at most."""

_PR_SET_PDEATHSIG = 1
_LONGEST_LINK = 15


@contextlib.contextmanager
def own(data: Path, *, containerd_store: bool = True, network: bool = True) -> Iterator[Engine]:
    """Start dockerd with its data in a new folder below `data`; stop it and remove the folder at the end.

    Without `network` it makes no bridge, so that it can run beside another engine. Needs root. Raises MissingError,
    with the end of the engine's log, when it does not come up.
    """
    link = f"slipway{os.getpid()}"[:_LONGEST_LINK] if network else ""
    data.mkdir(parents=True, exist_ok=True)
    images = Path(tempfile.mkdtemp(prefix="engine-", dir=data))
    runtime = Path(tempfile.mkdtemp(prefix="slipway-", dir=RUNTIME))
    daemon: subprocess.Popen[bytes] | None = None
    try:
        if link:
            _make_bridge(link)
        daemon = _start(images, runtime, containerd_store, link)
        yield _wait_until_up(daemon, runtime)
    finally:
        if daemon is not None:
            stop(daemon, runtime)
        for folder in (runtime, images):
            remove(folder)
        if link:
            bridge.remove(link)


def command(images: Path, runtime: Path) -> list[str]:
    """dockerd's command line. The configuration file is our own: the machine's may contradict these options."""
    return [
        *("dockerd", "--config-file", str(runtime / "daemon.json"), "--data-root", str(images)),
        *("--exec-root", str(runtime / "exec"), "--pidfile", str(runtime / "docker.pid")),
        *("-H", address(runtime), "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    ]


def address(runtime: Path) -> str:
    return f"unix://{runtime / 'docker.sock'}"


def _make_bridge(link: str) -> None:
    bridge.remove(link)  # of an earlier process of this number that was killed
    try:
        bridge.create(link)
    except OSError as error:
        raise MissingError(
            f"the engine's network bridge can't be made: {error.strerror}",
            remedy="use a machine whose root may make network interfaces, or point DOCKER_HOST at an engine",
        ) from error


def _start(images: Path, runtime: Path, containerd_store: bool, link: str) -> subprocess.Popen[bytes]:
    settings = {"features": {"containerd-snapshotter": containerd_store}}
    (runtime / "daemon.json").write_text(json.dumps(settings))
    parent = os.getpid()

    def die_with_parent() -> None:
        # Were this process killed, its engine would be told to stop instead of running on for ever.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    with (runtime / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            [*command(images, runtime), f"--bridge={link or 'none'}"],
            env=process.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def _wait_until_up(daemon: subprocess.Popen[bytes], runtime: Path) -> Engine:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        if (runtime / "docker.sock").exists():
            found = probe(address(runtime))
            if isinstance(found, Engine):
                return found
        time.sleep(0.1)
    log = (runtime / "dockerd.log").read_text(errors="replace")
    raise MissingError(
        "the container engine does not start here",
        where="dockerd",
        why=f"the end of its log:\n{process.last_lines(log)}",
        remedy="use a machine whose root may mount and make namespaces, or point DOCKER_HOST at an engine",
    )


def stop(daemon: subprocess.Popen[bytes], runtime: Path) -> None:
    """SIGTERM, by process id; SIGKILL to it and to what it started when that does not end it in time."""
    daemon.terminate()
    try:
        daemon.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    for pid in left_over(str(runtime)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def left_over(mark: str, proc: Path = Path("/proc")) -> list[int]:
    """Processes whose command line names our own runtime folder (containerd and its shims do)."""
    found = []
    for folder in proc.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def remove(folder: Path) -> None:
    """Delete a folder of the engine, after unmounting what a killed one left mounted in it."""
    for mount in mounts_below(folder, Path("/proc/self/mountinfo").read_text()):
        process.run(["umount", "-l", mount], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def mounts_below(folder: Path, mountinfo: str) -> list[str]:
    """Mount points at or below `folder`, the deepest first; proc(5) describes the file's fields."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines() if line]
    return sorted((p for p in points if Path(p).is_relative_to(folder)), key=lambda p: (-p.count("/"), p))
