"""libfabric between the two nodes, without NIXL: what it proves stands with each test."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from slipway.host.process import Result
from tests.gpu.harness.fixtures import PORTS, Pair

QUICK, FULL = (
    (64 << 10, 1 << 20, 64 << 20),
    (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30),
)
SECONDS = 300
Need = Callable[[str, bool], None]


def has(pair: Pair, provider: str) -> bool:
    """Whether both nodes' libfabric lists the provider."""
    return all(
        f"provider: {provider}" in node.run("fi_info", "-p", provider, check=False).out for node in (pair.a, pair.b)
    )


def between(pair: Pair, server: list[str], client: list[str]) -> Result:
    """Run a program of libfabric's on both nodes: b talks to a. The server needs a moment until it listens."""
    log = f"/tmp/{server[0]}-{time.monotonic_ns()}.log"
    with pair.a.running(*server, log=log):
        end = time.monotonic() + SECONDS
        while True:
            done = pair.b.run(*client, check=False, timeout=SECONDS)
            if done.code == 0 or "refused" not in (done.out + done.err).lower() or time.monotonic() > end:
                break
            time.sleep(1)
        assert done.code == 0, (
            f"{client}: {done.out}{done.err}\nthe other side: {pair.a.run('cat', log, check=False).out}"
        )
    return done


@pytest.mark.parametrize("provider", ["tcp", "efa"])
def test_fi_info_lists_the_provider_on_both_nodes(pair: Pair, need: Need, provider: str) -> None:
    """Proves that libfabric can use the device, not that anything can be sent."""
    there = has(pair, provider)
    if provider == "efa":
        need("efa", there)
    assert there


@pytest.mark.parametrize("provider", ["tcp", "efa"])
def test_messages_go_there_and_back(pair: Pair, need: Need, provider: str) -> None:
    """Proves that the two nodes reach each other over the provider. fi_pingpong checks what comes back (-c)."""
    if provider == "efa":
        need("efa", has(pair, "efa"))
    port = str(next(PORTS))
    options = ["-p", provider, "-e", "rdm", "-I", "100", "-S", "4096", "-c"]
    done = between(pair, ["fi_pingpong", "-B", port, *options], ["fi_pingpong", "-P", port, *options, pair.a.address])
    assert "MB/sec" in done.out


def test_the_bytes_of_a_bandwidth_sweep_cross_the_network(pair: Pair) -> None:
    """Proves that the counters by which the other tests judge do see this fabric, and prints its rate."""
    for size in FULL if pair.tier == "full" else QUICK:
        count = max(2, min(200, (64 << 20) // size))
        options = ["-p", pair.fabric, "-o", "read", "-S", str(size), "-I", str(count), "-W", "1"]
        port = str(next(PORTS))
        before = pair.b.received()
        server = ["fi_rma_bw", *options, "-B", port, "-s", pair.a.address]
        done = between(pair, server, ["fi_rma_bw", *options, "-P", port, pair.a.address])
        moved = {name: count - before.get(name, 0) for name, count in pair.b.received().items()}
        network = sum(
            n for name, n in moved.items() if name != "lo" and name.startswith("rdma:") is (pair.fabric == "efa")
        )
        assert network >= 0.99 * size * count, (size, count, moved)
        if pair.fabric == "efa":
            assert sum(n for name, n in moved.items() if not name.startswith("rdma:")) < 0.1 * size * count + 1e6, moved
        print(f"{size} bytes: {done.out.splitlines()[-1]}")
