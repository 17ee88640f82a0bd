"""NIXL between the two nodes: every backend of the image, READ and WRITE, 1 to 4096 descriptors, contents by digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slipway.testing.nixl_proof import complaints
from tests.gpu.harness.fixtures import PORTS, Pair

Need = Callable[[str, bool], None]
BACKENDS = ("UCX", "LIBFABRIC")
OPS = ("READ", "WRITE")
DESCRIPTORS = (1, 64, 4096)
TCP = {"UCX_TLS": "tcp", "FI_PROVIDER": "tcp"}

STORAGE = {"AZURE_BLOB", "BUFFER", "GDS", "GDS_MT", "GUSLI", "INFINIA", "OBJ", "POSIX"}
"""Backends that move memory to files and object stores."""

HARDWARE = {"GPUNETIO": "a BlueField NIC with DOCA"}
"""Backends that need what no node of this suite has."""


def bench(pair: Pair, *options: str, memory: str = "DRAM", tls: str = "tcp") -> dict[str, Any]:
    """A report of kvbench between the nodes."""
    sizes = "64K,1M,16M,64M,256M" if pair.tier == "full" else "64K,1M,16M"
    env = TCP if pair.fabric == "tcp" else {}
    port = next(PORTS)
    log = f"/tmp/kvbench-{port}.log"
    with pair.a.running("serve_app", "kvbench", "--listen", f"0.0.0.0:{port}", log=log, env=env) as pid:
        pair.a.wait_for("listening", log, 300, pid)
        words = ["serve_app", "kvbench", "--connect", f"{pair.a.address}:{port}", "--json", "-", "--sizes", sizes]
        tls_options = ["--ucx-tls", tls] if tls and pair.fabric == "tcp" else []
        more = ["--memory", memory, "--seconds", "0.1", *tls_options, *options]
        done = pair.b.run(*words, *more, env=env, check=False, timeout=1500)
    assert done.out.lstrip().startswith("{"), done.out + done.err
    report: dict[str, Any] = json.loads(done.out)
    print(json.dumps([{k: row[k] for k in ("backend", "op", "size", "descriptors", "gbps", "transport", "seen")}
                      for row in report["rows"]]), json.dumps(report["raw"]))  # fmt: skip
    return report


@pytest.fixture(scope="module")
def report(pair: Pair) -> dict[str, Any]:
    """All backends in host memory, and the raw link in the same run."""
    return bench(pair)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_arrives_is_what_was_sent_and_went_over_the_network(
    report: dict[str, Any], pair: Pair, backend: str
) -> None:
    """Proves contents (sha256 of every piece, in shuffled places), the transport's name, and that counters agree."""
    fabric = pair.fabric if backend == "LIBFABRIC" else "tcp"
    assert complaints(report, backend, fabric, OPS, DESCRIPTORS, between=True) == []


def test_the_raw_link_was_measured_in_the_same_run(report: dict[str, Any]) -> None:
    """Proves nothing about NIXL; without it no rate of NIXL means anything."""
    assert {link["op"] for link in report["raw"]} == set(OPS), report["failed"]
    assert all(link["gbps"] > 0 for link in report["raw"])


def test_every_backend_of_the_image_is_accounted_for(pair: Pair) -> None:
    """Proves that no backend that could carry KV is left out of this file."""
    code = (
        "import json; from nixl._api import nixl_agent, nixl_agent_config as c; "
        "print(json.dumps(nixl_agent('x', c(backends=[])).get_plugin_list()))"
    )
    found = set(json.loads(pair.a.python(code).splitlines()[-1]))
    assert found - STORAGE - set(HARDWARE) == set(BACKENDS)


def test_ucx_left_alone_names_what_it_took(pair: Pair) -> None:
    """Proves that nothing is hidden: UCX may take shared memory between containers of one machine, and must say so."""
    if pair.fabric != "tcp":
        pytest.skip("not run: only of interest over tcp")
    found = bench(pair, "--backends", "UCX", "--descriptors", "1", "--no-raw", tls="")
    assert {row["op"] for row in found["rows"]} == set(OPS)
    for row in found["rows"]:
        assert row["verified"], row
        assert row["transport"] != "unknown", row
        assert not row["contradiction"], row


@pytest.mark.parametrize("backend", BACKENDS)
def test_gpu_memory(pair: Pair, need: Need, backend: str) -> None:
    """Proves the same of GPU memory as of host memory."""
    need("cuda", pair.device == "cuda")
    found = bench(pair, "--backends", backend, memory="VRAM")
    fabric = pair.fabric if backend == "LIBFABRIC" else "tcp"
    assert complaints(found, backend, fabric, OPS, DESCRIPTORS, between=True) == []
    if pair.fabric == "efa" and backend == "LIBFABRIC":
        assert all(row["hmem"] for row in found["rows"]), "GPU-direct is off"
