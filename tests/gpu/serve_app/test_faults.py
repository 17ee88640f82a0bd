"""Faults with real processes: nothing hangs, nothing lies. Each test leaves the stack whole again."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import Any

import pytest
from stack import Stack, engine_core, replicas


def ask(stack: Stack, number: int, base: str = "") -> tuple[int, Any, float]:
    """A prompt that no cache knows."""
    prompt = f"Clause {number} at {time.time_ns()}: the licensee may copy and distribute"
    return stack.post(f"{base}/v1/completions", {"model": "demo", "prompt": prompt, "max_tokens": 5, "temperature": 0})


def same_as_one_node(stack: Stack, prompt: str) -> None:
    body = {"model": "demo", "prompt": prompt, "max_tokens": 8, "temperature": 0}
    _, one, _ = stack.post("/single/v1/completions", body)
    status, other, _ = stack.post("/v1/completions", body)
    assert status == 200
    assert other["choices"][0]["text"] == one["choices"][0]["text"]


@pytest.mark.parametrize("what", ["engine", "replica"])
def test_prefill_dies(stack: Stack, what: str) -> None:
    stack.wait_whole()
    (replica,) = replicas("Prefill")
    os.kill(engine_core(replica) if what == "engine" else replica, signal.SIGKILL)
    first = ask(stack, 0)
    assert first[0] == 200 and first[2] < 10, first
    later = [ask(stack, number) for number in range(1, 9)]
    assert [status for status, _, _ in later] == [200] * 8
    usual = sorted(seconds for _, _, seconds in (ask(stack, number, "/single") for number in range(9)))[4]
    assert sorted(seconds for _, _, seconds in later)[4] < usual + 0.5, "no request waits for what is known to be dead"
    assert stack.get("/ready")[1]["degraded"] == ["prefill"]
    assert stack.get("/health")[0] == 200
    same_as_one_node(stack, f"while {what} is away")
    stack.wait_whole()
    before = stack.state()["counts"]["remote"]
    same_as_one_node(stack, f"after {what} was away")
    assert stack.state()["counts"]["remote"] == before + 1, "the circuit has closed by itself"


def test_decode_replica_dies_in_a_stream(stack: Stack) -> None:
    stack.wait_whole()
    (replica,) = replicas("Decode")
    lines: list[tuple[float, str]] = []

    def read() -> None:
        body = {"model": "demo", "prompt": "Tell me", "max_tokens": 1900, "ignore_eos": True}
        with stack.stream("/v1/completions", body) as response:
            lines.extend((time.monotonic(), line.decode().strip()) for line in response if line.strip())

    reader = threading.Thread(target=read)
    reader.start()
    end = time.monotonic() + 30
    while len(lines) < 5 and time.monotonic() < end:
        time.sleep(0.05)
    killed = time.monotonic()
    os.kill(replica, signal.SIGKILL)
    reader.join(20)
    assert not reader.is_alive()
    assert lines[-1][1] == "data: [DONE]"
    error = json.loads(lines[-2][1][6:])["error"]
    assert error["type"] == "server_error" and "request id" in error["message"]
    assert lines[-2][0] - killed < 1.5
    status, body, seconds = ask(stack, 1)
    assert status == 503 and seconds < 1.5, (status, seconds)
    assert body["error"]["code"] == "unavailable"
    assert stack.get("/health")[0] == 503
    assert stack.get("/ready")[1]["degraded"] == ["decode"]
    stack.wait_whole()
    same_as_one_node(stack, "after decode was away")


def test_kv_older_than_its_lease_is_not_read(stack: Stack) -> None:
    """Decode's engine is paused for longer than the lease while prefill goes on and gives its blocks to others."""
    stack.wait_whole()
    core = engine_core(replicas("Decode")[0])
    filler = "It is a long established fact. " * 110
    prompts = [f"Paragraph {number} at {time.time_ns()}. {filler}" for number in range(8)]
    answers: dict[str, tuple[int, Any, float]] = {}

    def body(prompt: str) -> dict[str, Any]:
        return {"model": "demo", "prompt": prompt, "max_tokens": 8, "temperature": 0}

    def call(prompt: str) -> None:
        answers[prompt] = stack.post("/v1/completions", body(prompt), timeout_s=300)

    callers = [threading.Thread(target=call, args=[prompt]) for prompt in prompts]
    os.kill(core, signal.SIGSTOP)
    try:
        for caller in callers:
            caller.start()
            time.sleep(0.3)
        time.sleep(34)  # the lease is 30 s
    finally:
        os.kill(core, signal.SIGCONT)
    for caller in callers:
        caller.join(300)
    for prompt in prompts:
        status, got, _ = answers[prompt]
        _, one, _ = stack.post("/single/v1/completions", body(prompt))
        assert status == 200, got
        assert got["choices"][0]["text"] == one["choices"][0]["text"]
        # Nothing of the old blocks has stayed in decode's prefix cache.
        _, again, _ = stack.post("/v1/completions", {**body(prompt), "prompt_logprobs": 0})
        assert again["choices"][0]["text"] == one["choices"][0]["text"]
    if stack.log is not None:
        assert "KV lease refused" in stack.log.read_text(errors="replace")


def test_clients_that_leave_block_nothing(stack: Stack) -> None:
    stack.wait_whole()
    for number in range(20):
        body = {"model": "demo", "prompt": f"{number} leave " * 200, "max_tokens": 500}
        with stack.stream("/v1/completions", body) as response:
            for _ in range(number % 4):
                response.readline()
    assert max(ask(stack, number)[2] for number in range(5)) < 5
