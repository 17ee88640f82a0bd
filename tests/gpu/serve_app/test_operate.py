"""One prefill/decode stack with everything on that makes it operable, and all of it proven on that stack."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import operate
import pytest
from operate import ALICE, BOB, Answer, Operated

DASHBOARD = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "serve_app.json"
LONG = {"max_tokens": 400, "min_tokens": 400, "ignore_eos": True}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    """The stack; the tests run in this order, the last one ends it."""
    with operate.running(tmp_path_factory.mktemp("operate")) as running:
        yield running


def test_a_key_is_asked_for_and_never_told(stack: Operated) -> None:
    for key in (None, "sk-wrong-0123456789ab"):
        refused = stack.chat(key=key)
        assert refused.status == 401
        assert refused.json["error"]["code"] == "invalid_api_key"
        assert stack.ask("/v1/models", key=key).status == 401
        assert stack.ask("/metrics", key=key).status == 401
    assert stack.chat().status == 200
    assert stack.ask("/health", key=None).status == 200
    assert stack.ask("/ready", key=None).status == 200
    assert stack.ask("/docs").status == 404
    assert ALICE not in stack.log.read_text(errors="replace")


def test_one_line_a_request_with_its_id(stack: Operated) -> None:
    answer = stack.chat("tell me", headers={"x-request-id": "op-1"}, max_tokens=5)
    assert {name.lower(): value for name, value in answer.headers.items()}["x-request-id"] == "op-1"
    line = stack.line("op-1")
    usage = answer.json["usage"]
    expected = {"status": 200, "model": "demo", "key": "alice", "route": "chat", "prefill": "remote",
                "prompt_tokens": usage["prompt_tokens"], "completion_tokens": usage["completion_tokens"]}  # fmt: skip
    assert {name: line[name] for name in expected} == expected
    assert 0 < line["ttft_s"] <= line["total_s"] <= answer.seconds
    streamed = stack.chat("tell me", headers={"x-request-id": "op-2"}, max_tokens=5, stream=True)
    assert b'"usage":{' not in streamed.body, "a client that did not ask for usage gets none"
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert stack.line("op-2")["completion_tokens"] == usage["completion_tokens"]
    local = stack.ask("/v1/completions", {"model": "demo", "prompt": "a b", "max_tokens": 1, "echo": True,
                                          "logprobs": 0}, headers={"x-request-id": "op-3"})  # fmt: skip
    assert local.status == 200
    assert stack.line("op-3")["fallback"] == "echo_logprobs"


def test_the_trace_goes_through_ingress_decode_prefill_and_transfer(stack: Operated) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    text = "a long question about nothing in particular " * 40
    stack.chat(text, headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01", "x-request-id": "op-4"}, max_tokens=3)
    wanted = {"POST chat", "serve_app decode", "serve_app prefill", "kv_transfer", "llm_request"}
    end = time.monotonic() + 30
    spans: list[dict[str, str]] = []
    while time.monotonic() < end and not wanted <= {span["name"] for span in spans}:
        time.sleep(0.5)
        spans = [span for span in stack.collector.spans if span["trace"] == trace]
    by_name = {span["name"]: span for span in spans}
    assert wanted <= set(by_name), sorted(by_name)
    assert len([span for span in spans if span["name"] == "llm_request"]) == 2
    assert by_name["POST chat"]["parent"] == "b7ad6b7169203331"
    assert by_name["serve_app decode"]["parent"] == by_name["POST chat"]["id"]
    assert by_name["serve_app prefill"]["parent"] == by_name["serve_app decode"]["id"]
    assert by_name["kv_transfer"]["parent"] == by_name["serve_app decode"]["id"]
    assert stack.line("op-4")["trace_id"] == trace


def names_in(dashboard: dict[str, Any]) -> set[str]:
    """Every metric that a dashboard asks for. Its queries write each with braces."""
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return {name for text in expressions for name in re.findall(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{", text)}


def test_every_metric_of_the_dashboard_exists(stack: Operated) -> None:
    text = stack.ask("/metrics").body.decode()
    there = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}
    wanted = names_in(json.loads(DASHBOARD.read_text()))
    assert len(wanted) > 20
    assert wanted <= there, sorted(wanted - there)
    by_role = {role: text.count(f'role="{role}"') for role in ("ingress", "decode", "prefill")}
    assert all(by_role.values()), by_role
    for key, kind in (("alice", "prompt"), ("alice", "completion")):
        found = re.search(rf'serve_app_key_tokens_total{{key="{key}",kind="{kind}"[^}}]*}} (\S+)', text)
        assert found is not None and float(found.group(1)) > 0
    assert ALICE not in text


def test_sizes_are_limited(stack: Operated) -> None:
    start = time.monotonic()
    assert stack.ask("/v1/chat/completions", b"{" * 200_000).status in (413, 0)
    assert time.monotonic() - start < 2
    assert stack.chat(max_tokens=1501).json["error"]["param"] == "max_tokens"
    assert stack.chat(n=129).status == 400


def together(stack: Operated, count: int, **more: Any) -> list[Answer]:
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(stack.chat(**more))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_too_many_at_once_are_told_at_once(stack: Operated) -> None:
    accepted: list[Answer] = []
    long = {"max_tokens": 300, "min_tokens": 300, "ignore_eos": True}
    taking = threading.Thread(target=lambda: accepted.extend(together(stack, 4, **long)))  # max_num_seqs
    taking.start()
    time.sleep(1.0)
    refused = [stack.chat() for _ in range(11)]
    assert taking.is_alive(), "there was room again: nothing shown"
    taking.join()
    assert [answer.status for answer in accepted] == [200] * 4
    assert {answer.status for answer in refused} == {429}
    for answer in refused:
        assert int({name.lower(): value for name, value in answer.headers.items()}["retry-after"]) >= 1
    times = sorted(answer.seconds for answer in refused)
    print("429 after ms:", [round(seconds * 1000) for seconds in times])
    assert times[len(times) // 2] < 0.1
    burst = together(stack, 16, max_tokens=60, min_tokens=60, ignore_eos=True)
    assert sorted(answer.status for answer in burst) == [200] * 4 + [429] * 12


def test_a_keys_own_limit(stack: Operated) -> None:
    answers = together(stack, 3, key=BOB, max_tokens=60, min_tokens=60, ignore_eos=True)
    assert sorted(answer.status for answer in answers) == [200, 429, 429]
    body = next(answer for answer in answers if answer.status == 429).json
    assert body["error"]["code"] == "rate_limit_exceeded"


def test_a_new_key_works_without_a_restart(stack: Operated) -> None:
    new = "sk-carol-0123456789"
    assert stack.chat(key=new).status == 401
    stack.keys.write_text(json.dumps({"keys": [{"name": "carol", "key": new}, {"name": "alice", "key": ALICE}]}))
    time.sleep(1.5)
    assert stack.chat(key=new).status == 200
    assert stack.chat(key=BOB).status == 401


def listeners(stack: Operated) -> list[tuple[str, int, str]]:
    """(address, port, process) of everything that the stack listens on."""
    pids = {str(pid) for pid in _below(stack.process.pid)}
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in lines:
        if pids & set(re.findall(r"pid=(\d+)", line)):
            address, _, port = line.split()[3].rpartition(":")
            found.append((address, int(port), (re.findall(r'"([^"]+)"', line) or ["?"])[0]))
    return found


def open_to_strangers(port: int) -> list[str]:
    """What a listener does for somebody without Ray's token."""
    import grpc

    found = []
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        for path in ("/api/jobs/", "/api/serve/applications/", "/nodes"):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200 and not body.startswith(b"# HELP"):  # numbers for Prometheus, nothing else
                found.append(f"GET {path}")
    methods = ("NodeInfoGcsService/GetAllNodeInfo", "NodeManagerService/GetNodeStats", "CoreWorkerService/PushTask",
               "ActorInfoGcsService/GetAllActorInfo", "InternalKVGcsService/InternalKVKeys")  # fmt: skip
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for method in methods:
            try:
                channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=1)
                found.append(method)
            except grpc.RpcError as error:
                if error.code().name not in ("UNAUTHENTICATED", "UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"):
                    found.append(f"{method} {error.code().name}")
    return found


def test_what_listens_is_the_endpoint_or_asks_for_rays_token(stack: Operated) -> None:
    found = listeners(stack)
    (stack.log.parent / "listeners.txt").write_text("\n".join(map(str, sorted(found))))
    assert ("127.0.0.1", stack.port) in {(address, port) for address, port, _ in found}
    side_channels = [(address, port) for address, port, _ in found if 20000 <= port < 24000]
    assert len(side_channels) == 2 and {address for address, _ in side_channels} == {"127.0.0.1"}
    asked = {port: open_to_strangers(port) for address, port, _ in found
             if port != stack.port and not address.startswith("127.")}  # fmt: skip
    assert asked and not any(asked.values()), {port: what for port, what in asked.items() if what}


def _below(root: int) -> list[int]:
    from serve_app.run import processes

    return [root, *processes.below(root)]


def drain(stack: Operated, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "serve_app", "drain", *more], env=stack.environment,
                          capture_output=True, text=True, timeout=100)  # fmt: skip


def test_drain_lets_streams_end_and_takes_no_new_ones(stack: Operated) -> None:
    running: list[Answer] = []
    thread = threading.Thread(target=lambda: running.append(stack.chat(stream=True, **LONG)))
    thread.start()
    time.sleep(1.0)
    done: list[subprocess.CompletedProcess[str]] = []
    command = threading.Thread(target=lambda: done.append(drain(stack)))
    command.start()
    end = time.monotonic() + 10
    while stack.ask("/ready", key=None).status == 200 and time.monotonic() < end:
        time.sleep(0.05)
    state = stack.ask("/ready", key=None)
    refused = stack.chat()
    assert thread.is_alive(), "the stream ended before the drain began: nothing shown"
    assert state.status == 503 and state.json["draining"] is True and state.json["in_flight"] == 1
    assert refused.status == 503 and refused.json["error"]["code"] == "draining"
    assert {name.lower() for name in refused.headers} >= {"retry-after"}
    assert stack.ask("/health", key=None).status == 200
    thread.join()
    command.join()
    assert running[0].body.endswith(b"data: [DONE]\n\n") and b'data: {"error"' not in running[0].body
    assert done[0].returncode == 0, done[0].stderr
    assert drain(stack, "--undo").returncode == 0
    end = time.monotonic() + 10
    while (status := stack.chat().status) != 200 and time.monotonic() < end:
        time.sleep(0.2)
    assert status == 200


def test_sigterm_lets_a_stream_end(stack: Operated) -> None:
    running: list[Answer] = []
    thread = threading.Thread(target=lambda: running.append(stack.chat(stream=True, **LONG)))
    thread.start()
    time.sleep(1.0)
    assert thread.is_alive()
    stack.process.terminate()
    thread.join()
    assert running[0].body.endswith(b"data: [DONE]\n\n") and b'data: {"error"' not in running[0].body
    assert stack.process.wait(90) == 0
