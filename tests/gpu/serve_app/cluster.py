"""Several nodes on one machine: network namespaces on a bridge, a Ray node in each. Needs root and `ip` (iproute2).

A node's link can be cut and mended, slowed down (tc), and a node can be killed: all of its processes, by id.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

NET = "10.77.7"
RAY_PORT = 6399
SWITCH = "slipway-switch"
TOOLS = ("ip", "tc")
SYSTEM = {"worker_niceness": 0, "prestart_worker_first_driver": False}
"""As serve_app's own Ray (run.ray_local)."""


def possible() -> bool:
    """True where namespaces can be made."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in TOOLS):
        return False
    probe = f"slipway-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return False
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return True


@dataclass
class Cluster:
    """nodes: name → custom resource of its Ray node; the first is the head. environment: for every Ray process."""

    folder: Path
    nodes: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            **self.environment,
        }

    @property
    def head(self) -> str:
        """Name of the head node."""
        return next(iter(self.nodes))

    def address(self, node: str) -> str:
        """A node's address, reachable from this process, too."""
        return f"{NET}.{list(self.nodes).index(node) + 1}"

    # ---- the net ----

    def up(self, ray: bool = True) -> None:
        """Namespaces, links and, with `ray`, Ray nodes. What an earlier run left behind is taken away first."""
        self.down()
        _ip("netns", "add", SWITCH)
        _ip("-n", SWITCH, "link", "add", "name", "bridge0", "type", "bridge")
        _ip("-n", SWITCH, "link", "set", "bridge0", "up")
        _ip("link", "add", "slipway-test", "type", "veth", "peer", "name", "host", "netns", SWITCH)
        _ip("-n", SWITCH, "link", "set", "host", "master", "bridge0", "up")
        _ip("addr", "add", f"{NET}.254/24", "dev", "slipway-test")
        _ip("link", "set", "slipway-test", "up")
        for node in self.nodes:
            space = _space(node)
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", node, "netns", SWITCH)
            _ip("-n", SWITCH, "link", "set", node, "master", "bridge0", "up")
            _ip("-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "route", "add", "default", "via", f"{NET}.254")  # Ray asks the routes for its own address
        for node in self.nodes if ray else ():
            self.start(node)

    def down(self) -> None:
        """Ends every process of the namespaces and takes them away."""
        for node in self.nodes:
            self.kill(node)
        for process in self._started:
            process.wait(30)
        for space in [*map(_space, self.nodes), SWITCH]:
            if Path("/run/netns", space).exists():
                _ip("netns", "del", space)

    def cut(self, node: str) -> None:
        """The node is alone from now on; nobody is told."""
        _ip("-n", SWITCH, "link", "set", node, "down")

    def mend(self, node: str) -> None:
        """The link is there again."""
        _ip("-n", SWITCH, "link", "set", node, "up")

    def slow(self, node: str, megabit: float | None) -> None:
        """What the node sends comes out at so many Mbit/s; None: as fast as it goes."""
        arguments = ["tc", "-n", _space(node), "qdisc"]
        subprocess.run([*arguments, "del", "dev", "eth0", "root"], capture_output=True)
        if megabit is not None:
            rate = ["tbf", "rate", f"{megabit}mbit", "burst", "64kb", "latency", "2000ms"]
            subprocess.run([*arguments, "add", "dev", "eth0", "root", *rate], check=True)

    # ---- the nodes ----

    def start(self, node: str) -> None:
        """Starts the node's Ray. Raises RuntimeError when it does not come up."""
        head = node == self.head
        where = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false", f"--temp-dir={self._short()}",
                 f"--system-config={json.dumps(SYSTEM)}"]  # fmt: skip
        joining = [f"--address={self.address(self.head)}:{RAY_PORT}"]
        resources = json.dumps({self.nodes[node]: 100})
        arguments = [f"--node-ip-address={self.address(node)}", "--num-cpus=16", f"--resources={resources}",
                     "--object-store-memory=100000000", "--disable-usage-stats", "--block"]  # fmt: skip
        log = (self.folder / f"{node}.log").open("ab")
        arguments = ["start", *(where if head else joining), *arguments]
        process = self.popen(node, ["-m", "ray.scripts.scripts", *arguments], log)
        self._started.append(process)
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if "Ray runtime started" in (self.folder / f"{node}.log").read_text(errors="replace"):
                return
            time.sleep(0.2)
        raise RuntimeError(f"{node} did not start:\n" + (self.folder / f"{node}.log").read_text()[-3000:])

    def popen(self, node: str, arguments: list[str], log: object) -> subprocess.Popen[bytes]:
        """A Python process on a node."""
        command = ["ip", "netns", "exec", _space(node), sys.executable, *arguments]
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,  # type: ignore[call-overload, no-any-return]
                                env=self.environment, start_new_session=True)  # fmt: skip

    def pids(self, node: str) -> list[int]:
        """Ids of the node's processes."""
        space = Path("/run/netns", _space(node))
        if not space.exists():
            return []
        wanted = space.stat().st_ino
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if (entry / "ns" / "net").stat().st_ino == wanted:
                        found.append(int(entry.name))
        return found

    def kill(self, node: str) -> None:
        """SIGKILL to every process of the node, until none is left."""
        for _ in range(20):
            pids = self.pids(node)
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def _short(self) -> str:
        """Ray's session folder: its sockets' paths must stay under 107 characters."""
        folder = Path("/tmp") / f"slipway-ray-{os.getpid()}"  # noqa: S108
        folder.mkdir(exist_ok=True)
        return str(folder)


def _space(node: str) -> str:
    return f"slipway-{node}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
