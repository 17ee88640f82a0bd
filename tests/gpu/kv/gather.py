"""Gathers the evidence of one run of prompts through a running stack."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from slipway.testing.kv_proof import Evidence, counted
from tests.gpu.kv.stack import BLOCK, Stack

BYTES_PER_TOKEN = 4 * 2 * 2 * 64 * 4
"""The demo model: layers × (K and V) × KV heads × head size × bytes of a float32."""

VOCABULARY = range(300, 1000)
"""Token ids that the demo's tokenizer surely has."""

TOKENS, WORDS = 3072, 8
"""Of a prompt: 24 whole blocks, 12.6 MB. And of an answer."""

QUIET_S = 5.0
Ask = Callable[[Stack, list[int]], dict[str, Any]]


def prompts(count: int, seed: int, tokens: int = TOKENS) -> list[list[int]]:
    """Random ones: no cache knows them."""
    chance = random.Random(seed)  # noqa: S311 - prompts, no secrets
    return [[chance.choice(VOCABULARY) for _ in range(tokens)] for _ in range(count)]


def through(stack: Stack, prompt: list[int]) -> dict[str, Any]:
    """The ordinary way: prefill there, decode here."""
    return stack.complete(prompt, WORDS)


def recomputed(stack: Stack, prompt: list[int]) -> dict[str, Any]:
    """The lie: decode computes everything itself, and the text is right."""
    return stack.alone(prompt, WORDS)


def evidence(stack: Stack, wanted: Sequence[list[int]], ask: Ask = through) -> Evidence:
    """Ask, and count meanwhile; then ask for what one node says."""
    began = time.monotonic()
    first = stack.decode.received()
    time.sleep(QUIET_S)
    before, quiet = stack.metrics(), stack.decode.received()
    rate = sum(quiet.values()) - sum(first.values())
    asked = time.monotonic()
    per_second = rate / (asked - began)
    answers = [ask(stack, prompt) for prompt in wanted]
    carried = {name: count - quiet.get(name, 0) for name, count in stack.decode.received().items()}
    took = time.monotonic() - asked
    after = stack.metrics()
    alone = [stack.alone(prompt, WORDS) for prompt in wanted]
    return Evidence(
        prompts=[len(prompt) for prompt in wanted],
        block_tokens=BLOCK,
        bytes_per_token=BYTES_PER_TOKEN,
        **counted(before, after),
        carried={name: count for name, count in carried.items() if count},
        background=int(2 * per_second * took) + 100_000 * len(wanted),
        nodes=stack.nodes,
        texts=[answer["text"] for answer in answers],
        expected=[answer["text"] for answer in alone],
        extra={
            "seconds": took,
            "talk_per_second": per_second,
            "alone_computed": counted(after, stack.metrics())["computed_tokens"],
            "logprobs": [[a["logprobs"]["token_logprobs"], b["logprobs"]["token_logprobs"]]
                         for a, b in zip(answers, alone, strict=True)],
        },
    )  # fmt: skip
