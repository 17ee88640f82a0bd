"""Prefill on one node, decode on the other, through Ray Serve: all of the KV cache goes over the wire, and right."""

from __future__ import annotations

import dataclasses
import statistics

from slipway.testing.kv_proof import Evidence, complaints
from tests.gpu.kv import gather
from tests.gpu.kv.stack import Stack

TOLERANCE = 0.01
"""Of a log probability, in float32: other shapes of the same sums."""


def test_the_roles_are_on_different_nodes(stack: Stack) -> None:
    """Proves what serve_app promises of placement, by the processes that run on each node."""
    assert {role: len(names) for role, names in stack.nodes.items()} == {"prefill": 1, "decode": 1}
    assert stack.nodes["prefill"] != stack.nodes["decode"]


def test_four_counts_agree_and_the_text_is_one_node_s(evidence: Evidence, stack: Stack) -> None:
    """Proves the transfer: NIXL's bytes are the prompts' blocks, every prompt token came from outside, decode computed
    none, the bytes crossed the network that was asked for, and greedy text (float32) is what one node says.
    """
    assert complaints(evidence, stack.pair.fabric) == [], evidence


def test_one_node_s_answer_was_computed_on_one_node(evidence: Evidence) -> None:
    """Proves that the yardstick is none of the thing measured: decode computed every token of those prompts."""
    assert evidence.extra["alone_computed"] == sum(evidence.prompts), evidence


def test_log_probabilities_are_one_node_s(evidence: Evidence, stack: Stack) -> None:
    """Proves more than equal text: a cache that is nearly right has other log probabilities. Full tier: 5 seeds."""
    pairs = list(evidence.extra["logprobs"])  # type: ignore[call-overload]
    if stack.pair.tier == "full":
        for seed in range(2, 6):
            more = gather.evidence(stack, gather.prompts(6, seed))
            assert complaints(more, stack.pair.fabric) == [], more
            pairs += more.extra["logprobs"]  # type: ignore[operator]
    off = [abs(one - other) for mine, theirs in pairs for one, other in zip(mine, theirs, strict=True)]
    spread = 1.96 * statistics.stdev(off) / len(off) ** 0.5
    print(
        f"difference of {len(off)} log probabilities: {statistics.mean(off):.2e} ± {spread:.1e}, at most {max(off):.2e}"
    )
    assert max(off) <= TOLERANCE


def test_a_transfer_that_is_switched_off_is_caught(stack: Stack) -> None:
    """The lie that no text shows, told with a real run: decode recomputes, and answers right."""
    found = gather.evidence(stack, gather.prompts(2, seed=77), gather.recomputed)
    assert list(found.texts) == list(found.expected)
    said = complaints(found, stack.pair.fabric)
    for wanted in (
        "NIXL's counter did not move",
        "0 prompt tokens came from outside",
        "prompt tokens itself",
        "bytes came in",
    ):
        assert any(wanted in complaint for complaint in said), said


def test_other_lies_about_this_very_run_are_caught(evidence: Evidence, stack: Stack) -> None:
    """Recorded counters, changed as each lie would change them."""
    name = max(evidence.carried, key=lambda key: evidence.carried[key] if key != "lo" else 0)
    lies = {
        "half the bytes": {"nixl_bytes": evidence.nixl_bytes // 2, "carried": {name: evidence.payload // 2}},
        "wrong bytes": {"texts": [*evidence.texts[:-1], evidence.texts[-1] + "?"]},
        "same node": {"nodes": {"prefill": ["x"], "decode": ["x"]}},
        "counters that do not move": {"carried": {}},
        "another fabric": {"carried": {"rdma:x" if stack.pair.fabric == "tcp" else "eth0": evidence.payload}},
    }
    for lie, fields in lies.items():
        assert complaints(dataclasses.replace(evidence, **fields), stack.pair.fabric), lie  # type: ignore[arg-type]
