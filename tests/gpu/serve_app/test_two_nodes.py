"""Faults between nodes: a head, a prefill node and a decode node in network namespaces, with links that can be cut.

Each test leaves the stack whole again. The bounds are the stated ones.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import cluster as clusters
import pytest
import stack as stacks
from stack import Stack

pytestmark = pytest.mark.skipif(not clusters.possible(), reason="needs root and network namespaces")
FABRIC = os.environ.get("SERVE_APP_FABRIC", "ucx")
LEASE_S = 30
LONG = "It is a long established fact. " * 140
"""About 1500 tokens: 24 MB of KV in float32."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    """Three nodes."""
    made = clusters.Cluster(tmp_path_factory.mktemp("cluster"),
                            {"front": "front", "prefill": "prefill_node", "decode": "decode_node"})  # fmt: skip
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def spread(cluster: clusters.Cluster) -> Iterator[Stack]:
    """Prefill/decode over the three nodes, and one engine on the head."""
    # Shared memory would carry KV past the links.
    environment = (("UCX_TLS", "tcp"), ("FI_PROVIDER", "tcp"))
    places = stacks.Places("front", ("prefill_node", 1), ("decode_node", 1), environment, (("fabric", FABRIC),))
    with stacks.spread(cluster.folder, cluster, places) as running:
        yield running


def note(name: str, **figures: Any) -> None:
    """Keeps what was measured, before it is judged."""
    stacks.note(f"{FABRIC} {name}", figures)


def body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "demo", "prompt": f"{time.time_ns()} {text}", "max_tokens": 8, "temperature": 0, **more}


def ask(stack: Stack, text: str = "the licensee may copy", base: str = "") -> tuple[int, Any, float]:
    return stack.post(f"{base}/v1/completions", body(text))


class Caller(threading.Thread):
    """One request in the background; `answer` when it has ended."""

    def __init__(self, stack: Stack, request: dict[str, Any], timeout_s: float = 200.0) -> None:
        super().__init__()
        self.stack, self.request, self.timeout_s = stack, request, timeout_s
        self.answer: tuple[int, Any, float] = (0, "unfinished", 0.0)
        self.start()

    def run(self) -> None:
        self.answer = self.stack.post("/v1/completions", self.request, self.timeout_s)


def right(stack: Stack, request: dict[str, Any], answer: tuple[int, Any, float]) -> bool:
    """The text is one node's, and so is the next one of the same prompt: no poisoned cache."""
    _, one, _ = stack.post("/single/v1/completions", request)
    _, again, _ = stack.post("/v1/completions", request)
    wanted = one["choices"][0]["text"]
    return bool(answer[1]["choices"][0]["text"] == wanted == again["choices"][0]["text"])


def wait_idle(stack: Stack, seconds: float, level: dict[str, float]) -> float:
    """Seconds until both roles use no more blocks than `level`; raises TimeoutError."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        now = stack.usage()
        if all(now.get(role, 1.0) <= level[role] + 1e-6 for role in level):
            return time.monotonic() - start
        time.sleep(0.5)
    raise TimeoutError(f"blocks still in use after {seconds} s: {now}, idle {level}")


def test_kv_crosses_the_link(spread: Stack) -> None:
    before = spread.state()["counts"].get("remote", 0)
    request = body(LONG)
    status, answer, seconds = spread.post("/v1/completions", request)
    assert status == 200
    assert right(spread, request, (status, answer, seconds))
    assert spread.state()["counts"]["remote"] >= before + 1
    note("kv crosses the link", seconds=seconds)


@pytest.mark.parametrize("seconds", [18, LEASE_S + 8])
def test_prefill_link_cut(spread: Stack, cluster: clusters.Cluster, seconds: int) -> None:
    spread.wait_whole()
    idle = spread.usage()
    requests = [body(LONG) for _ in range(3)]
    callers = [Caller(spread, request) for request in requests[:2]]
    time.sleep(0.4)
    cluster.cut("prefill")
    callers.append(Caller(spread, requests[2]))
    time.sleep(seconds)
    while_cut = ask(spread)
    cluster.mend("prefill")
    for caller in callers:
        caller.join(120)
    answers = [caller.answer for caller in callers]
    after = wait_idle(spread, LEASE_S + 5, idle)
    note(f"prefill link cut {seconds} s", seconds=[a[2] for a in answers], later=while_cut[2], idle_after=after)
    assert while_cut[0] == 200 and while_cut[2] < 5, while_cut
    assert [a[0] for a in answers] == [200] * 3, answers
    assert all(right(spread, r, a) for r, a in zip(requests, answers, strict=True))
    spread.wait_whole()


def test_link_cut_in_a_transfer(spread: Stack, cluster: clusters.Cluster) -> None:
    """A transfer that never ends: the request is computed anew, with other blocks, and the old ones get free."""
    spread.wait_whole()
    idle = spread.usage()
    cluster.slow("prefill", 12)  # 24 MB take 16 s
    request = body(LONG)
    caller = Caller(spread, request)
    time.sleep(6)
    cluster.cut("prefill")
    caller.join(120)
    status, answer, seconds = caller.answer
    counts = spread.state()["counts"]
    cluster.slow("prefill", None)
    cluster.mend("prefill")
    note("link cut in a transfer", seconds=seconds, idle_after=wait_idle(spread, 120, idle), counts=counts)
    assert status == 200 and seconds < LEASE_S + 15, (status, seconds)
    assert right(spread, request, caller.answer)
    spread.wait_whole()


def test_prefill_node_killed(spread: Stack, cluster: clusters.Cluster) -> None:
    spread.wait_whole()
    requests = [body(LONG) for _ in range(2)]
    callers = [Caller(spread, request) for request in requests]
    time.sleep(0.4)
    cluster.kill("prefill")
    for caller in callers:
        caller.join(60)
    first = [caller.answer for caller in callers]
    pairs = [(ask(spread), ask(spread, base="/single")) for _ in range(20)]  # in turns: both see the same load
    later = [answer for answer, _ in pairs]
    usual = sorted(answer[2] for _, answer in pairs)[10]
    median = sorted(a[2] for a in later)[10]
    degraded = spread.get("/ready")[1]["degraded"]
    start = time.monotonic()
    cluster.start("prefill")
    spread.wait_whole()
    note("prefill node killed", first=[a[::2] for a in first], later=[a[2] for a in later], usual=usual,
         back_after=time.monotonic() - start)  # fmt: skip
    assert [a[0] for a in first] == [200, 200], first
    assert all(a[2] < 12 for a in first)
    assert all(right(spread, r, a) for r, a in zip(requests, first, strict=True))
    assert [a[0] for a in later] == [200] * 20
    assert median < usual + 0.1
    assert degraded == ["prefill"]
    before = spread.state()["counts"]["remote"]
    assert ask(spread)[0] == 200
    assert spread.state()["counts"]["remote"] == before + 1


@pytest.mark.parametrize("how", ["cut", "killed"])
def test_decode_node_lost_in_a_stream(spread: Stack, cluster: clusters.Cluster, how: str) -> None:
    spread.wait_whole()
    lines: list[tuple[float, str]] = []

    def read() -> None:
        with spread.stream("/v1/completions", body("Tell me", max_tokens=1900, ignore_eos=True)) as response:
            lines.extend((time.monotonic(), line.decode().strip()) for line in response if line.strip())

    reader = threading.Thread(target=read)
    reader.start()
    end = time.monotonic() + 30
    while len(lines) < 5 and time.monotonic() < end:
        time.sleep(0.05)
    lost = time.monotonic()
    cluster.cut("decode") if how == "cut" else cluster.kill("decode")
    waiting = ask(spread)  # nothing sent yet, no other replica: 503
    after = ask(spread)
    reader.join(60)
    if how == "cut":
        cluster.mend("decode")
    else:
        cluster.start("decode")
    start = time.monotonic()
    spread.wait_whole()
    note(f"decode node {how}", event=lines[-2][0] - lost, waiting=waiting[::2], after=after[::2],
         back_after=time.monotonic() - start)  # fmt: skip
    assert lines[-1][1] == "data: [DONE]"
    assert json.loads(lines[-2][1][6:])["error"]["type"] == "server_error"
    assert lines[-2][0] - lost < 15
    assert waiting[0] == 503 and waiting[2] < 16, waiting
    request = body("after decode was away")
    assert right(spread, request, spread.post("/v1/completions", request))
