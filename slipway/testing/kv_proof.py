"""Whether a KV cache really went from prefill to decode, over the fabric that was asked for. Pure.

Equal text proves nothing: decode may have computed the prompts itself. So four counts must agree that have nothing to
do with each other (NIXL's bytes, vLLM's tokens by source, the network's counters, tokens that decode computed), the two
roles must be on different nodes, and the text must be what one node says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slipway.testing.metrics import Metrics

TOLERANCE = 0.01
"""Share of the payload by which the network's count may be off, beside what the nodes say to each other anyway."""

LEAST_TOKENS = 900
"""Of a prompt: a short one would drown in that talk."""


@dataclass(frozen=True)
class Evidence:
    """What was counted while `prompts` (their numbers of tokens) were answered.

    nixl_bytes, nixl_failed: decode's NIXL. external_tokens, computed_tokens: of prompts, on decode, by source.
    carried: interface or RDMA device of the decode node → bytes received. background: bytes that the nodes' ordinary
    talk would have sent in that time. nodes: role → names of nodes. texts, expected: answers, and one node's.
    """

    prompts: Sequence[int]
    block_tokens: int
    bytes_per_token: int
    nixl_bytes: int
    nixl_failed: int
    external_tokens: int
    computed_tokens: int
    carried: Mapping[str, int]
    background: int
    nodes: Mapping[str, Sequence[str]]
    texts: Sequence[str]
    expected: Sequence[str]
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def payload(self) -> int:
        """Bytes of the blocks that hold the prompts: whole blocks travel."""
        blocks = sum(-(-tokens // self.block_tokens) for tokens in self.prompts)
        return blocks * self.block_tokens * self.bytes_per_token


def counted(before: Metrics, after: Metrics) -> dict[str, int]:
    """The fields of Evidence that vLLM's metrics tell."""

    def grown(name: str, **labels: str) -> int:
        return round(after.sum(name, role="decode", **labels) - before.sum(name, role="decode", **labels))

    source = "vllm:prompt_tokens_by_source_total"
    return {
        "nixl_bytes": grown("vllm:nixl_bytes_transferred_sum"),
        "nixl_failed": grown("vllm:nixl_num_failed_transfers_total"),
        "external_tokens": grown(source, source="external_kv_transfer"),
        "computed_tokens": grown(source, source="local_compute"),
    }


def complaints(found: Evidence, fabric: str) -> list[str]:
    """Everything that keeps `found` from being a proof of transfer over `fabric` ("tcp" or "efa"). Empty: proven."""
    wrong = [*_setting(found), *_transfer(found), *_wire(found, fabric)]
    if list(found.texts) != list(found.expected):
        different = [
            number for number, pair in enumerate(zip(found.texts, found.expected, strict=False)) if len(set(pair)) > 1
        ]
        wrong.append(f"answers {different or 'in number'} are not what one node says")
    return wrong


def _setting(found: Evidence) -> list[str]:
    wrong = []
    if not found.prompts or min(found.prompts) < LEAST_TOKENS:
        wrong.append(f"there must be prompts, of {LEAST_TOKENS} tokens or more")
    prefill, decode = (set(found.nodes.get(role, ())) for role in ("prefill", "decode"))
    if not prefill or not decode:
        wrong.append("it is not known on which nodes prefill and decode are")
    elif prefill & decode:
        wrong.append(f"prefill and decode are on the same node: {', '.join(sorted(prefill & decode))}")
    return wrong


def _transfer(found: Evidence) -> list[str]:
    wrong = []
    if found.nixl_bytes == 0:
        wrong.append("NIXL's counter did not move: nothing was transferred")
    elif found.nixl_bytes != found.payload:
        wrong.append(f"NIXL moved {found.nixl_bytes} bytes; the prompts' blocks have {found.payload}")
    if found.nixl_failed:
        wrong.append(f"{found.nixl_failed} transfers failed")
    if found.external_tokens != sum(found.prompts):
        wrong.append(f"{found.external_tokens} prompt tokens came from outside; the prompts have {sum(found.prompts)}")
    if found.computed_tokens:
        wrong.append(f"decode computed {found.computed_tokens} prompt tokens itself")
    return wrong


def _wire(found: Evidence, fabric: str) -> list[str]:
    network = {name: count for name, count in found.carried.items() if not name.startswith("rdma:") and name != "lo"}
    rdma = {name: count for name, count in found.carried.items() if name.startswith("rdma:")}
    asked, other = (rdma, network) if fabric == "efa" else (network, rdma)
    moved, elsewhere = sum(asked.values()), sum(other.values())
    wrong = []
    if moved < (1 - TOLERANCE) * found.payload:
        wrong.append(
            f"{moved} bytes came in over {fabric} ({', '.join(asked) or 'no such device'}); {found.payload} should"
        )
    elif moved > (1 + TOLERANCE) * found.payload + found.background:
        wrong.append(
            f"{moved} bytes came in over {fabric}; only {found.payload} (and {found.background} of talk) should"
        )
    if elsewhere > TOLERANCE * found.payload + found.background:
        wrong.append(f"{elsewhere} bytes came in over {', '.join(other)}, which was not asked for")
    return wrong
