"""serve_app doctor and kvbench in the real image: a healthy container is fine, what Docker gives by default is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.container.docker import OFFLINE, Docker

pytestmark = pytest.mark.needs("serve_app", "nixl", "fabric")

HEALTHY = ("--shm-size", "1g")

MACHINE = {"clock", "hf_cache", "interfaces", "worker_cores"}
"""Checks whose outcome is the test machine's: its clock, cores, disk and network, not the image's."""


def examine(docker: Docker, *words: str, options: tuple[str, ...] = HEALTHY) -> dict[str, Any]:
    """The doctor's document."""
    done = docker.run("serve_app", "doctor", "--json", *words, options=options, check=False, timeout=600)
    document: dict[str, Any] = json.loads(done.out)
    assert done.code == document["exit"], done
    return document


def of(document: dict[str, Any], check: str, severity: str) -> list[str]:
    return [one["what"] for one in document["findings"] if (one["check"], one["severity"]) == (check, severity)]


def test_a_container_with_a_network_and_shared_memory_is_fine(docker: Docker) -> None:
    found = examine(docker)
    wrong = [one for one in found["findings"] if one["severity"] in ("warning", "error")]
    assert [one for one in wrong if one["check"] not in MACHINE] == []
    assert found["exit"] == 0 or wrong
    assert {"nixl_plugins", "libraries", "shared_memory", "placement"} <= {one["check"] for one in found["findings"]}
    print(f"{found['seconds']} s")


def test_docker_s_default_shared_memory_is_told(docker: Docker) -> None:
    found = examine(docker, options=())
    assert of(found, "shared_memory", "warning"), found
    assert found["exit"] >= 1


def test_a_container_without_a_network_carries_no_kv(docker: Docker) -> None:
    found = examine(docker, options=(*OFFLINE, *HEALTHY))
    assert of(found, "interfaces", "error"), found
    assert found["exit"] == 2


def test_variables_that_break_the_fabric_are_told(docker: Docker) -> None:
    options = (
        *HEALTHY,
        "--env",
        "FI_PROVIDER=efa",
        "--env",
        "UCX_MODULES=all",
        "--env",
        "VLLM_NIXL_SIDE_CHANNEL_PORT=5600",
    )
    found = examine(docker, options=options)
    assert of(found, "transports", "error"), found
    assert of(found, "side_channel", "warning"), found
    assert of(found, "libraries", "warning"), found


def test_measure_names_the_transport_of_each_backend(docker: Docker) -> None:
    """No rate is asked for: the machine may be busy with anything."""
    found = examine(docker, "--measure")
    said = [one for one in found["findings"] if one["check"] == "measured"]
    told = " ".join(one["what"] for one in said)
    assert [one for one in said if one["severity"] == "error"] == [], said
    assert "UCX moves DRAM at" in told
    assert "LIBFABRIC moves DRAM at" in told
    assert "libfabric tcp" in told


def test_kvbench_draws_a_picture_and_prints_a_table(docker: Docker) -> None:
    bench = "serve_app kvbench --sizes 64K,1M --descriptors 1,64 --seconds 0.05 --png /tmp/x.png"
    script = f"{bench} && head -c 8 /tmp/x.png | od -c"
    done = docker.run("sh", "-c", script, options=HEALTHY, check=False, timeout=900)
    assert done.code == 0, done
    assert "G" in done.out.splitlines()[-2] and "P   N" in done.out, done.out
    table = [line.split() for line in done.out.splitlines() if line.startswith(("UCX", "LIBFABRIC"))]
    assert len(table) == 2 * 2 * 4
    assert all(line[6] == "right" or "right" in line for line in table), done.out
    assert "raw link, fi_rma_bw READ" in done.out
