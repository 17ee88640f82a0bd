"""Prefill is not there when the service starts: it starts without, says so, and takes prefill in when it comes."""

from __future__ import annotations

from collections.abc import Iterator

import cluster as clusters
import pytest
import stack as stacks
from stack import Stack

pytestmark = pytest.mark.skipif(not clusters.possible(), reason="needs root and network namespaces")
NODES = {"front": "front", "prefill": "prefill_node", "decode": "decode_node"}
REQUEST = {"model": "demo", "prompt": "the licensee may copy", "max_tokens": 8, "temperature": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    """Three nodes, of which prefill's is dead."""
    made = clusters.Cluster(tmp_path_factory.mktemp("cluster"), NODES)
    try:
        made.up()
        made.kill("prefill")
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def degraded(cluster: clusters.Cluster) -> Iterator[Stack]:
    """A service that has come up all the same."""
    places = stacks.Places("front", ("prefill_node", 1), ("decode_node", 1), (("UCX_TLS", "tcp"),))
    with stacks.spread(cluster.folder, cluster, places, whole=False) as running:
        yield running


def test_it_answers_without_prefill_and_takes_it_in_later(degraded: Stack, cluster: clusters.Cluster) -> None:
    status, state, _ = degraded.get("/ready")
    assert status == 200, "KubeRay promotes the new cluster only once this is 200"
    assert state["degraded"] == ["prefill"]
    status, answer, seconds = degraded.post("/v1/completions", REQUEST)
    assert status == 200 and seconds < 10
    _, one, _ = degraded.post("/single/v1/completions", REQUEST)
    assert answer["choices"][0]["text"] == one["choices"][0]["text"]
    assert degraded.state()["counts"].get("remote", 0) == 0
    cluster.start("prefill")
    degraded.wait_whole()
    assert degraded.post("/v1/completions", REQUEST)[0] == 200
    assert degraded.state()["counts"]["remote"] >= 1
