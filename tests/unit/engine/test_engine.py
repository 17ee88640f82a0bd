"""The engine's pure parts: what `docker info` says, where it is installed from, what a stopped one leaves behind."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.engine import bridge, daemon, find, firewall, install, session
from slipway.engine.model import Engine, Unreachable
from slipway.errors import MissingError
from slipway.host import process

CONTAINERD = {"ServerVersion": "28.5.2", "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
CLASSIC = {"ServerVersion": "20.10.24", "DriverStatus": [["Backing Filesystem", "extfs"]]}


@pytest.mark.parametrize(("info", "store"), [(CONTAINERD, "containerd"), (CLASSIC, "classic")])
def test_the_image_store_is_told_apart(info: dict[str, object], store: str) -> None:
    assert find.read_info(json.dumps(info), "unix:///x") == Engine(str(info["ServerVersion"]), store, "unix:///x")


@pytest.mark.parametrize(
    "text", ["", "Cannot connect", "null", "[]", '{"ServerVersion": ""}', '{"ServerErrors": ["x"]}']
)
def test_a_client_without_a_server_is_no_engine(text: str) -> None:
    assert find.read_info(text, "") is None


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (Unreachable(installed=True, denied=True), "usermod"),
        (Unreachable(installed=True, denied=False), "systemctl start"),
        (Unreachable(installed=False, denied=False), "apt-get install"),
    ],
)
def test_no_engine_is_exit_3_with_a_remedy(found: Unreachable, word: str) -> None:
    error = find.no_engine(found)
    assert error.exit_code == 3
    assert word in str(error)


def test_an_own_engine_is_not_bent_by_the_users_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere.example:1")
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    own = Engine("28", "containerd", "unix:///run/own.sock").environment()
    assert own["DOCKER_HOST"] == "unix:///run/own.sock"
    assert "DOCKER_CONTEXT" not in own
    theirs = Engine("28", "containerd").environment()
    assert theirs["DOCKER_HOST"] == "tcp://elsewhere.example:1"


def test_a_running_engine_is_used_and_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = Engine("28", "containerd")
    monkeypatch.setattr(session, "probe", lambda: engine)
    with session.available(tmp_path / "data") as found:
        assert found is engine
    assert not (tmp_path / "data").exists()


def test_a_user_without_an_engine_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "probe", lambda: Unreachable(installed=True, denied=True, said="denied"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError), session.available(tmp_path):
        pass


def test_os_release_is_read(tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text("# c\nID=debian\nVERSION_ID=\"12\"\nNAME='Debian GNU/Linux'\n\nODD\n")
    read = install.os_release(tmp_path / "os-release")
    assert read == {"ID": "debian", "VERSION_ID": "12", "NAME": "Debian GNU/Linux"}
    assert install.os_release(tmp_path / "absent") == {}


def test_the_mirror_is_the_machines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "file:/local bookworm\nhttp://mirror.example/security/ bookworm-security\nhttp://mirror.example/d/ bookworm\n"
    )
    monkeypatch.setattr(process, "run", lambda *_a, **_k: process.Result(0, said, ""))
    assert install.debian_mirror() == "http://mirror.example/d/"


def test_only_the_engine_may_come_from_the_newer_release() -> None:
    first, second = install.pins("forky").split("\n\n")
    assert "Package: *\n" in first
    assert "Pin-Priority: -1" in first
    assert "docker.io" in second
    assert "libc6" not in second


def test_the_firewall_is_left_alone(tmp_path: Path) -> None:
    """The options that make dockerd keep its hands off; the container tests look at the rules themselves."""
    words = daemon.command(tmp_path / "images", tmp_path / "run")
    assert {"--iptables=false", "--ip6tables=false", "--ip-forward=false"} <= set(words)
    assert "--config-file" in words


def test_mounts_of_a_killed_engine_are_found_deepest_first() -> None:
    mountinfo = (
        "1 0 8:1 / / rw - ext4 /dev/x rw\n"
        "2 1 0:5 / /data/engine-1/overlay rw - overlay o rw\n"
        "3 2 0:6 / /data/engine-1/overlay/a\\040b rw - overlay o rw\n"
        "4 1 0:7 / /data/engine-10 rw - tmpfs t rw\n"
    )
    assert daemon.mounts_below(Path("/data/engine-1"), mountinfo) == [
        "/data/engine-1/overlay/a b",
        "/data/engine-1/overlay",
    ]


def test_processes_of_a_killed_engine_are_found_by_its_folder() -> None:
    mark = f"/run/slipway-test-{os.getpid()}"
    child = subprocess.Popen(["sh", "-c", "echo up; read line", mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        assert daemon.left_over(mark) == [child.pid]
    finally:
        child.kill()
        child.wait()
    assert daemon.left_over(mark) == []


def test_removing_an_absent_bridge_does_nothing() -> None:
    bridge.remove("slipway-none0")


ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
slipway1\t0000590A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the file is in host byte order; this sample is little-endian")
def test_routes_are_read() -> None:
    assert [str(network) for network in bridge.read_routes(ROUTES)] == ["192.0.2.0/24", "10.89.0.0/24"]


def test_engines_side_by_side_have_networks_of_their_own() -> None:
    first = bridge.free_network([])
    second = bridge.free_network([first])
    assert not first.overlaps(second)
    everything = [ipaddress.ip_network("10.0.0.0/8")]
    assert bridge.free_network(everything) == first, "where all are routed somewhere, one has to do"


SAVED = """\
# Generated by iptables-save v1.8.9
*filter
:INPUT ACCEPT [12:3400]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
[5:60] -A FORWARD -j DOCKER-USER
-A DOCKER-USER -j RETURN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
COMMIT
"""


def test_firewall_rules_are_read_without_counters() -> None:
    assert firewall.read_rules(SAVED) == [
        "filter :FORWARD DROP",
        "filter :DOCKER-USER -",
        "filter -A FORWARD -j DOCKER-USER",
        "filter -A DOCKER-USER -j RETURN",
        "nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
    ]
    assert firewall.read_rules("*filter\n:INPUT ACCEPT [1:2]\n:FORWARD ACCEPT [0:0]\nCOMMIT\n") == []


def test_a_snapshot_survives_its_text() -> None:
    taken = firewall.take()
    assert firewall.Snapshot.from_text(taken.as_text()) == taken
    assert any(setting.startswith("net/ipv4/ip_forward=") for setting in taken.forwarding)
