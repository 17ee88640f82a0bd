"""Faults with real processes: nothing hangs, nothing lies. Each test leaves the stack whole again."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from stack import ENGINE, Stack, engine_core, note, replicas

LEASE_S = 30
LEAVERS = int(os.environ.get("SERVE_APP_LEAVERS", "500"))


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


@pytest.mark.parametrize("pause", [LEASE_S - 0.5, LEASE_S + 6])
def test_kv_older_than_its_lease_is_not_read(stack: Stack, pause: float) -> None:
    """Decode's engine is paused while prefill goes on and gives its blocks to others: for longer than the lease of the
    first prompts, which are refused then; and for longer than a transfer may take, so that all are begun anew.
    """
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
        time.sleep(pause)  # after 2.4 s of starting callers
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
    if stack.log is not None and pause < LEASE_S:
        assert "KV lease refused" in stack.log.read_text(errors="replace")


def leave(stack: Stack, number: int) -> None:
    """A request whose client goes away after a random time: in the queue, in prefill, between, in the stream."""
    dice = random.Random(number)  # noqa: S311 - no secret
    text = f"{number} {time.time_ns()} leave " + "and copy " * dice.choice([5, 50, 400, 800])
    body = {"model": "demo", "prompt": text, "max_tokens": 300, "stream": dice.random() < 0.7, "ignore_eos": True}
    if dice.random() < 0.15:
        body["n"] = 2
    data = json.dumps(body).encode()
    host, _, port = stack.url.removeprefix("http://").partition(":")
    lines = ["POST /v1/completions HTTP/1.1", "host: x", "content-type: application/json"]
    head = "\r\n".join([*lines, f"content-length: {len(data)}", "", ""])
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode() + data)
        time.sleep(dice.choice([0.0, 0.02, 0.1, 0.3, 0.6, 1.2]) * (0.5 + dice.random()))


def test_clients_that_leave_leak_no_block(stack: Stack) -> None:
    stack.wait_whole()
    idle = stack.usage()
    before = stack.expired()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: leave(stack, number), range(LEAVERS)))
    start = time.monotonic()
    while (now := stack.usage()) != idle and time.monotonic() - start < 30:
        time.sleep(0.3)
    seconds = time.monotonic() - start
    note("leavers", {"number": LEAVERS, "idle": idle, "after": now, "seconds": seconds,
                     "expired": stack.expired() - before, "counts": stack.state()["counts"]})  # fmt: skip
    assert now == idle
    assert seconds < 5
    assert stack.expired() == before, "a lease ran out: somebody was not told"


def test_two_hundred_in_a_row(stack: Stack) -> None:
    stack.wait_whole()
    answers = [ask(stack, number) for number in range(200)]
    slowest = sorted(seconds for _, _, seconds in answers)
    note("two_hundred", {"median": slowest[100], "most": slowest[-1]})
    assert [status for status, _, _ in answers] == [200] * 200
    assert slowest[-1] < 5


def load(stack: Stack, clients: int, seconds: float) -> list[tuple[int, float, str | None]]:
    """Status, seconds and Retry-After of each answer to clients that ask without a pause."""
    end = time.monotonic() + seconds
    found: list[tuple[int, float, str | None]] = []

    def one(client: int) -> None:
        number = 0
        while time.monotonic() < end:
            number += 1
            prompt = f"{client}-{number} at {time.time_ns()}: the licensee"
            body = {"model": "demo", "prompt": prompt, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
            status, took, headers = stack.head("/v1/completions", body)
            found.append((status, took, headers.get("retry-after")))
            if status == 429:
                time.sleep(0.2)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))
    return found


def test_overload(stack: Stack) -> None:
    """Capacity: as many clients as decode runs sequences."""
    stack.wait_whole()
    capacity = ENGINE["max_num_seqs"]
    load(stack, capacity, 5)
    calm, wild = load(stack, capacity, 25), load(stack, 4 * capacity, 25)
    accepted = sorted(seconds for status, seconds, _ in wild if status == 200)
    refused = sorted(seconds for status, seconds, _ in wild if status == 429)
    usual = sorted(seconds for status, seconds, _ in calm if status == 200)
    p99, usual99 = (values[int(0.99 * len(values))] for values in (accepted, usual))
    note("overload", {
        "accepted": len(accepted), "refused": len(refused), "p99": p99, "p99_at_capacity": usual99,
        "refused_median": refused[len(refused) // 2] if refused else None,
        "refused_p99": refused[int(0.99 * len(refused))] if refused else None,
        "statuses": sorted({status for status, _, _ in wild + calm}),
    })  # fmt: skip
    assert {status for status, _, _ in wild} == {200, 429}
    assert {status for status, _, _ in calm} == {200}
    assert all(after and int(after) > 0 for status, _, after in wild if status == 429)
    assert p99 <= 1.5 * usual99
    assert refused[len(refused) // 2] < 0.1
