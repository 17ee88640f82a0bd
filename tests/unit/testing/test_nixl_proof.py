"""The suite's own verdict on NIXL between two nodes: every lie is caught."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.testing.nixl_proof import complaints

ROW = {"backend": "LIBFABRIC", "op": "READ", "size": 65536, "descriptors": 1, "verified": True, "contradiction": "",
       "seen": ["eth0"], "transport": "libfabric tcp, 1 rail, 172.17.0.0/16"}  # fmt: skip


def judge(change: dict[str, Any] | None = None, fabric: str = "tcp", between: bool = True, **report: Any) -> list[str]:
    whole = {"rows": [{**ROW, **(change or {})}], "failed": {}, **report}
    return complaints(whole, "LIBFABRIC", fabric, ("READ",), (1,), between)


def test_the_truth_is_no_lie() -> None:
    assert judge() == []
    assert judge({"seen": ["rdma:efa_0"], "transport": "libfabric efa, 4 rails"}, "efa") == []


@pytest.mark.parametrize(
    ("change", "fabric", "says"),
    [
        ({"verified": False}, "tcp", "not what was sent"),
        ({"contradiction": "x is said to have carried it"}, "tcp", "is said"),
        ({"seen": [], "transport": "cma/memory"}, "tcp", "within one node"),
        ({"seen": ["lo"]}, "tcp", "within one node"),
        ({"transport": "cma/memory"}, "tcp", "tcp was asked for"),
        ({}, "efa", "efa was asked for"),
        ({"transport": "libfabric efa, 1 rail"}, "efa", "EFA's counters did not move"),
        ({"op": "WRITE"}, "tcp", "READ was not measured"),
        ({"descriptors": 64}, "tcp", "with 1 descriptors"),
    ],
)
def test_lies_are_caught(change: dict[str, Any], fabric: str, says: str) -> None:
    found = judge(change, fabric)
    assert any(says in complaint for complaint in found), found


def test_a_backend_that_failed_or_is_not_there() -> None:
    assert judge(failed={"LIBFABRIC": "NIXL_ERR_NOT_FOUND"}) == ["LIBFABRIC failed: NIXL_ERR_NOT_FOUND"]
    assert judge(rows=[]) == ["READ was not measured with 1 descriptors"]
