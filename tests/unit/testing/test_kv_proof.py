"""The suite's own verdict on a KV transfer: real counts are a proof, and every lie is caught."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from slipway.testing.kv_proof import Evidence, complaints, counted
from slipway.testing.metrics import parse

# Recorded 2026-12-01 from two containers of the cpu image (LIBFABRIC over tcp): two prompts of 1024 tokens.
BEFORE = """
vllm:nixl_bytes_transferred_sum{engine="0",model_name="demo",role="decode",replica="0zm37y6f"} 524288.0
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer",role="decode",replica="0zm37y6f"} 35.0
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute",role="decode",replica="0zm37y6f"} 4.0
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute",role="prefill",replica="dr4w6zsx"} 51.0
"""
AFTER = """
# HELP vllm:nixl_bytes_transferred Histogram of bytes transferred per NIXL KV Cache transfers.
vllm:nixl_bytes_transferred_sum{engine="0",model_name="demo",role="decode",replica="0zm37y6f"} 8.912896e+06
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer",role="decode",replica="0zm37y6f"} 2083.0
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute",role="decode",replica="0zm37y6f"} 4.0
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute",role="prefill",replica="dr4w6zsx"} 2099.0
"""
WIRE = 8480374
COUNTS = counted(parse(BEFORE), parse(AFTER))
TRUE = Evidence(
    prompts=(1024, 1024),
    block_tokens=128,
    bytes_per_token=4096,
    **COUNTS,
    carried={"eth0": WIRE, "lo": 90_000_000},
    background=60_000,
    nodes={"prefill": ["b"], "decode": ["a"]},
    texts=("ith FOR", "MENT fe"),
    expected=("ith FOR", "MENT fe"),
)


def lie(fabric: str = "tcp", **fields: Any) -> list[str]:
    return complaints(dataclasses.replace(TRUE, **fields), fabric)


def test_what_was_recorded_is_a_proof() -> None:
    assert COUNTS == {"nixl_bytes": 8388608, "nixl_failed": 0, "external_tokens": 2048, "computed_tokens": 0}
    assert complaints(TRUE, "tcp") == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        # Transfer switched off: decode recomputes, and the text is right.
        ({"nixl_bytes": 0, "external_tokens": 0, "computed_tokens": 2048, "carried": {}}, "computed 2048"),
        ({"nixl_bytes": 0, "external_tokens": 0, "computed_tokens": 2048, "carried": {"eth0": 50_000}}, "did not move"),
        # Half the bytes: by NIXL's count, by the network's, by the tokens'.
        ({"nixl_bytes": 4194304}, "NIXL moved 4194304"),
        ({"carried": {"eth0": WIRE // 2}}, "should"),
        ({"external_tokens": 1024}, "1024 prompt tokens"),
        # Wrong bytes: decode goes on from a wrong cache.
        ({"texts": ("ith FOR", "something else")}, "answers [1]"),
        ({"texts": ("ith FOR",)}, "in number"),
        # Same node: everything goes through memory.
        ({"nodes": {"prefill": ["a"], "decode": ["a"]}, "carried": {"eth0": 4_000}}, "same node"),
        ({"carried": {"eth0": 4_000, "lo": 2 * WIRE}}, "4000 bytes came in over tcp"),
        ({"nodes": {}}, "not known"),
        # Counters that do not move.
        ({"carried": {}}, "no such device"),
        ({"nixl_bytes": 0}, "did not move"),
        ({"external_tokens": 0}, "0 prompt tokens"),
        # And the rest.
        ({"nixl_failed": 1}, "1 transfers failed"),
        ({"computed_tokens": 1}, "computed 1"),
        ({"carried": {"eth0": 2 * WIRE}}, "only"),
        ({"carried": {"eth0": WIRE, "rdma:efa_0": WIRE}}, "was not asked for"),
        ({"prompts": (1024, 100)}, "900 tokens"),
        ({"prompts": ()}, "900 tokens"),
    ],
)  # fmt: skip
def test_lies_are_caught(fields: dict[str, Any], says: str) -> None:
    found = lie(**fields)
    assert any(says in complaint for complaint in found), found


def test_tcp_instead_of_efa_is_caught() -> None:
    assert any("no such device" in complaint for complaint in lie("efa"))
    assert any("eth0, which was not asked for" in complaint for complaint in lie("efa"))
    both = {"eth0": WIRE, "rdma:efa_0": WIRE}
    assert any("eth0, which was not asked for" in complaint for complaint in lie("efa", carried=both))
    assert lie("efa", carried={"eth0": 90_000, "rdma:efa_0": WIRE}) == []


def test_whole_blocks_travel() -> None:
    assert dataclasses.replace(TRUE, prompts=(1025, 900)).payload == (9 + 8) * 128 * 4096


def test_metrics_are_summed_over_what_is_asked_for() -> None:
    found = parse('a{x="1",y="q\\"z"} 1\na{x="2"} 2.5e1\nb 3\n# a 9\nbad line\n')
    assert found.sum("a") == 26
    assert found.sum("a", x="2") == 25
    assert found.sum("b") == 3
    assert found.sum("c") == 0
