"""Faults one after the other under load: every request ends, in time, with the right text or an error that says so.

Half an hour for all twelve, so only where $SERVE_APP_SOAK says how many (12: each kind once).
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cluster as clusters
import pytest
import stack as stacks
from stack import Stack, engine_core, replicas

FAULTS = int(os.environ.get("SERVE_APP_SOAK", "0"))
pytestmark = [
    pytest.mark.skipif(not clusters.possible(), reason="needs root and network namespaces"),
    pytest.mark.skipif(FAULTS == 0, reason="SERVE_APP_SOAK says how many faults; 0"),
]
DEADLINE_S = 60.0
"""A transfer that never ends costs the lease (30 s) and the prompt's computation; all else is faster."""
NODES = {"front": "front", "prefill": "prefill_node", "decode1": "decode_node", "decode2": "decode_node"}


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, clusters.Cluster]]:
    """Two decode nodes, one prefill node."""
    made = clusters.Cluster(tmp_path_factory.mktemp("soak"), NODES)
    places = stacks.Places("front", ("prefill_node", 1), ("decode_node", 2), (("UCX_TLS", "tcp"),))
    try:
        made.up()
        with stacks.spread(made.folder, made, places) as running:
            yield running, made
    finally:
        made.down()


@dataclass
class Load:
    """Clients that ask prompts whose answers are known."""

    stack: Stack
    expected: dict[str, str]
    ended: list[tuple[str, float]] = field(default_factory=list)
    wrong: list[Any] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def client(self, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - no secret
        while not self.stop.is_set():
            prompt = dice.choice(list(self.expected))
            start = time.monotonic()
            kind, text = self.one(prompt, stream=dice.random() < 0.5)
            self.ended.append((kind, time.monotonic() - start))
            if kind == "right" and text != self.expected[prompt]:
                self.wrong.append((prompt[:60], self.expected[prompt], text))
            if kind != "right":
                time.sleep(0.3)

    def one(self, prompt: str, stream: bool) -> tuple[str, str]:
        """How it ended ("right" where it claims to be an answer), and the text."""
        request = {"model": "demo", "prompt": prompt, "max_tokens": 16, "temperature": 0}
        if not stream:
            status, answer, _ = self.stack.post("/v1/completions", request, DEADLINE_S)
            return ("right", answer["choices"][0]["text"]) if status == 200 else (f"status {status}", "")
        try:
            with self.stack.stream("/v1/completions", request, DEADLINE_S) as response:
                lines = [line.decode()[6:].strip() for line in response if line.startswith(b"data: ")]
        except OSError as error:
            return f"status {getattr(error, 'code', 0)}", ""
        events = [json.loads(line) for line in lines if line != "[DONE]"]
        if lines[-1:] != ["[DONE]"]:
            return "no end", ""
        if any("error" in event for event in events):
            return "error event", ""
        return "right", "".join(event["choices"][0]["text"] for event in events if event["choices"])


def faults(nodes: clusters.Cluster) -> list[tuple[str, Callable[[], object]]]:
    """Name and deed, in the order in which they are done."""

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def lose(node: str) -> None:
        nodes.kill(node)
        time.sleep(5)
        nodes.start(node)

    def cut(node: str, seconds: float) -> None:
        nodes.cut(node)
        time.sleep(seconds)
        nodes.mend(node)

    def pause(pid: int, seconds: float) -> None:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    return [
        ("prefill engine killed", lambda: kill(engine_core(replicas("Prefill")[0]))),
        ("decode replica killed", lambda: kill(replicas("Decode")[0])),
        ("prefill link cut 18 s", lambda: cut("prefill", 18)),
        ("prefill node killed", lambda: lose("prefill")),
        ("decode engine killed", lambda: kill(engine_core(replicas("Decode")[0]))),
        ("decode link cut 20 s", lambda: cut("decode1", 20)),
        ("prefill replica killed", lambda: kill(replicas("Prefill")[0])),
        ("decode node killed", lambda: lose("decode2")),
        ("prefill link cut 38 s", lambda: cut("prefill", 38)),
        ("prefill engine paused 34 s", lambda: pause(engine_core(replicas("Prefill")[0]), 34)),
        ("decode engine paused 34 s", lambda: pause(engine_core(replicas("Decode")[0]), 34)),
        ("both decode replicas killed", lambda: [kill(pid) for pid in replicas("Decode")]),
    ]


def test_every_request_ends(soaked: tuple[Stack, clusters.Cluster]) -> None:
    stack, nodes = soaked
    filler = "the licensee may copy and distribute this program "
    prompts = [f"Section {number}. " + filler * (1 + 7 * (number % 5)) for number in range(30)]
    expected = {}
    for prompt in prompts:
        request = {"model": "demo", "prompt": prompt, "max_tokens": 16, "temperature": 0}
        expected[prompt] = stack.post("/single/v1/completions", request)[1]["choices"][0]["text"]
    load = Load(stack, expected)
    clients = [threading.Thread(target=load.client, args=[seed]) for seed in range(2)]
    for client in clients:
        client.start()
    told = []
    try:
        for name, deed in faults(nodes)[:FAULTS]:
            start, before = time.monotonic(), len(load.ended)
            deed()
            stack.wait_whole(400)
            mine = load.ended[before:]
            told.append({"fault": name, "whole_again_after": round(time.monotonic() - start, 1),
                         "ends": Counter(kind for kind, _ in mine),
                         "slowest": round(max((seconds for _, seconds in mine), default=0.0), 1)})  # fmt: skip
            stacks.note("soak", told)
    finally:
        load.stop.set()
        for client in clients:
            client.join(2 * DEADLINE_S)
    assert not any(client.is_alive() for client in clients), "a request hangs"
    assert load.wrong == []
    assert max(seconds for _, seconds in load.ended) < DEADLINE_S
    kinds = {kind for kind, _ in load.ended}
    assert kinds <= {"right", "error event", "status 503"}, kinds
