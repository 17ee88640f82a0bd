"""Prefill/decode gives the same answers as one node, and really is prefill/decode while it does."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from compare import differences, plain, send
from kinds import KINDS, Kind
from stack import Stack, note

OWN = {"chat kv_transfer_params", "chat allowed ids"}
"""Refused on both by us; the rest must be what one node says."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))
def test_one_at_a_time(stack: Stack, kind: Kind) -> None:
    one, other = send(stack.url + "/single", kind), send(stack.url, kind)
    for answer in (one, other):
        assert 200 <= answer["status"] < 500, answer
    assert differences(plain(one), plain(other)) == []
    assert (one["status"] == 400) or kind.name not in OWN


def test_errors_have_openais_shape(stack: Stack) -> None:
    for kind in KINDS:
        answer = send(stack.url, kind)
        if answer["status"] >= 400:
            inner = answer["body"]["error"]
            assert set(inner) == {"message", "type", "param", "code"}, (kind.name, inner)
            for inside in ("Traceback", "ray::", "pid=", "actor_id", "Internal exception"):
                assert inside not in str(answer), kind.name


def test_with_eight_clients(stack: Stack) -> None:
    wanted = [kind for kind in KINDS if kind.route.startswith("/v1/c") and kind.raw is None and kind.method == "POST"]
    expected = {kind.name: plain(send(stack.url + "/single", kind)) for kind in wanted}
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda kind: (kind.name, plain(send(stack.url, kind))), wanted * 2))
    wrong = {name: found for name, answer in got if (found := differences(expected[name], answer))}
    assert wrong == {}


def test_every_prompt_token_came_from_prefill(stack: Stack) -> None:
    """New prompts, so that no cache helps: what decode got from outside is all of them."""

    def sums() -> dict[str, float]:
        names = {"external": 'external_kv_transfer"', "computed": 'local_compute"', "cached": 'local_cache_hit"'}
        found = stack.samples("vllm:prompt_tokens_by_source_total")
        decode = [(labels, value) for labels, value in found if 'role="decode"' in labels]
        moved = stack.samples("vllm:nixl_bytes_transferred_sum")
        return {**{key: sum(value for labels, value in decode if name in labels) for key, name in names.items()},
                "bytes": sum(value for _, value in moved)}  # fmt: skip

    before, counts = sums(), stack.state()["counts"]
    tokens = 0
    for number in range(20):
        body = {"model": "demo", "prompt": f"{time.time_ns()} {number}: the licensee may copy", "max_tokens": 2}
        status, answer, _ = stack.post("/v1/completions", body)
        assert status == 200
        tokens += answer["usage"]["prompt_tokens"]
    now, after = sums(), stack.state()["counts"]
    gained = {key: now[key] - before[key] for key in now}
    note("proof", {**gained, "prompt_tokens": tokens})
    assert gained["bytes"] > 0
    assert gained["external"] == tokens
    assert gained["computed"] == gained["cached"] == 0
    assert after == {**counts, "remote": counts["remote"] + 20}


def test_it_was_prefill_and_decode(stack: Stack) -> None:
    """Runs after the others: equal texts alone prove nothing, decode could have computed all of it."""
    counts = stack.state()["counts"]
    assert counts["remote"] > 80
    assert not {"local_died", "local_silent", "local_no_replica", "circuit_open"} & set(counts), counts
    if stack.log is not None:
        log = stack.log.read_text(errors="replace")
        assert "Potentially invalid" not in log
        assert "lease refused" not in log
