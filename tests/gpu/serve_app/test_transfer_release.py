"""Why blocks of a KV transfer that never ends are kept: NIXL writes into them after the transfer was released."""

from __future__ import annotations

import json
from pathlib import Path

import cluster as clusters
import pytest

pytestmark = pytest.mark.skipif(not clusters.possible(), reason="needs root and network namespaces")
SCRIPT = str(Path(__file__).with_name("nixl_read.py"))


def test_a_released_read_goes_on_writing(tmp_path: Path) -> None:
    """When this fails, NIXL stops at release, and vLLM's worker may give such blocks back at the deadline."""
    nodes = clusters.Cluster(tmp_path, {"reader": "", "target": ""}, {"UCX_TLS": "tcp"})
    try:
        nodes.up(ray=False)
        nodes.slow("target", 20)  # 24 MB take 10 s
        with (tmp_path / "target.log").open("wb") as log:
            nodes.popen("target", [SCRIPT, "target", str(tmp_path)], log)
        with (tmp_path / "reader.log").open("wb") as log:
            reading = nodes.popen("reader", [SCRIPT, "reader", str(tmp_path)], log)
        assert reading.wait(90) == 0, (tmp_path / "reader.log").read_text()
    finally:
        nodes.down()
    lines = (tmp_path / "reader.log").read_text().splitlines()
    found = json.loads(next(line for line in lines if line.startswith("{")))
    assert found["state"] == "PROC"
    assert found["words_after_release"] > 0
