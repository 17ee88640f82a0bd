"""What the ingress does itself, in a real process, over an engine that is none (ingress.py)."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

KEY = "sk-test-0123456789abc"
SCRIPT = Path(__file__).with_name("ingress.py")


@dataclass
class Process:
    """A running ingress."""

    port: int
    log: Path

    def ask(
        self, path: str = "/v1/chat/completions", body: Any = None, headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> tuple[int, bytes, dict[str, str]]:  # fmt: skip
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method or ("GET" if data is None else "POST"), path, data,
                               {"content-type": "application/json", **(headers or {})})  # fmt: skip
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}

    def chat(self, text: str = "hi", headers: dict[str, str] | None = None, **more: Any) -> tuple[int, bytes, Any]:
        body = {"model": "demo", "messages": [{"role": "user", "content": text}], **more}
        return self.ask(body=body, headers=headers)

    def lines(self) -> list[dict[str, Any]]:
        found = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in found]

    def line(self, request_id: str) -> dict[str, Any]:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for line in self.lines():
                if line["request_id"] == request_id:
                    return line
            time.sleep(0.05)
        raise TimeoutError(request_id)


@contextlib.contextmanager
def running(folder: Path, **endpoint: Any) -> Iterator[Process]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "ingress.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, str(SCRIPT), str(port), json.dumps(endpoint)], stdout=out,
                                   stderr=out, env=dict(os.environ))  # fmt: skip
    found = Process(port, log)
    try:
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError):
                found.ask("/health")
                break
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.2)
        yield found
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    file.write_text(json.dumps({"keys": [
        {"name": "test", "key": KEY}, {"name": "slow", "key": KEY + "-slow", "requests_per_minute": 2},
        {"name": "few", "key": KEY + "-few", "tokens_per_minute": 60}]}))  # fmt: skip
    return file


@pytest.fixture(scope="module")
def open_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Without keys."""
    with running(tmp_path_factory.mktemp("open"), max_body_bytes=2000, max_in_flight=2, max_prompt_chars=500,
                 cors_origins=["https://a.example"]) as process:  # fmt: skip
        yield process


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Iterator[Process]:
    """With keys, also for /metrics."""
    with running(tmp_path_factory.mktemp("keyed"), keys_file=str(keys), metrics="key", docs=True) as process:
        yield process


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize("headers", [{}, {"authorization": KEY}, {"authorization": "Basic " + KEY}, bearer(""),
                                     bearer(KEY[:-1]), bearer(KEY + "x"), {"x-api-key": KEY}])  # fmt: skip
def test_without_the_right_key(keyed: Process, headers: dict[str, str]) -> None:
    status, body, answer = keyed.chat(headers=headers)
    assert status == 401
    assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert answer["www-authenticate"] == "Bearer"
    for path in ("/v1/models", "/metrics", "/docs", "/openapi.json", "/v1/nothing"):
        assert keyed.ask(path, headers=headers)[0] == 401


def test_with_the_right_key(keyed: Process) -> None:
    for headers in (bearer(KEY), {"Authorization": f"bearer {KEY}"}):
        assert keyed.chat(headers=headers)[0] == 200
    for path in ("/v1/models", "/metrics", "/docs"):
        assert keyed.ask(path, headers=bearer(KEY))[0] == 200
    assert keyed.ask("/health")[0] == 200
    assert KEY not in keyed.log.read_text()
    assert KEY.encode() not in keyed.ask("/metrics", headers=bearer(KEY))[1]


def test_a_keys_requests_and_tokens_per_minute(keyed: Process) -> None:
    slow = [keyed.chat(headers=bearer(KEY + "-slow"))[0] for _ in range(3)]
    assert slow == [200, 200, 429]
    few = [keyed.chat("x" * 40, headers=bearer(KEY + "-few")) for _ in range(7)]  # 10 tokens each, by the engine
    assert [status for status, _, _ in few][:2] == [200, 200]
    status, body, headers = few[-1]
    assert status == 429
    assert "60 tokens per minute" in json.loads(body)["error"]["message"]
    assert 1 <= int(headers["retry-after"]) <= 60
    metrics = keyed.ask("/metrics", headers=bearer(KEY))[1].decode()
    served = [status for status, _, _ in few].count(200)
    assert f'serve_app_key_tokens_total{{key="few",kind="completion"}} {3.0 * served}' in metrics
    assert 'serve_app_key_requests_total{key="slow",status="429"} 1.0' in metrics


def test_a_body_that_is_too_long_is_not_parsed(open_: Process) -> None:
    status, body, _ = open_.ask(body=b"[" * 2001)
    assert status == 413
    assert json.loads(body)["error"]["code"] == "request_too_large"
    assert open_.ask(body=b"[" * 2000)[0] == 400


def test_a_body_without_a_length_is_counted(open_: Process) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b'{"model": ' + b" " * 100

    connection = http.client.HTTPConnection("127.0.0.1", open_.port, timeout=20)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", pieces(), {"content-type": "application/json"},
                           encode_chunked=False)  # fmt: skip
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == "request_too_large"


def test_a_prompt_that_is_too_long(open_: Process) -> None:
    status, body, _ = open_.chat("x" * 501)
    assert (status, json.loads(body)["error"]["code"]) == (400, "context_length_exceeded")


def test_one_more_than_fits_is_told_at_once(open_: Process) -> None:
    threads = [threading.Thread(target=open_.chat, args=("2",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.7)
    start = time.monotonic()
    status, body, headers = open_.chat()
    seconds = time.monotonic() - start
    for thread in threads:
        thread.join()
    assert status == 429 and seconds < 0.1
    assert headers["retry-after"] == "1"
    assert json.loads(body)["error"]["code"] == "overloaded"
    assert open_.chat()[0] == 200


def test_ids_in_and_out_and_in_the_log(open_: Process) -> None:
    for given, kept in (("mine-1", True), ("x" * 300, False), ("with blank", False)):
        _, _, headers = open_.chat(headers={"x-request-id": given})
        assert (headers["x-request-id"] == given) is kept
        assert open_.line(headers["x-request-id"])["status"] == 200
    status, body, headers = open_.chat("boom")
    assert status == 500
    assert headers["x-request-id"] in json.loads(body)["error"]["message"]
    assert b"secret" not in body and b"10.1.2.3" not in body
    assert open_.line(headers["x-request-id"])["error"] == "internal_error"


def test_usage_of_a_stream_is_counted_and_shown_only_where_asked_for(open_: Process) -> None:
    for options, shown in ((None, False), ({"include_usage": True}, True), ({"include_usage": False}, False)):
        more = {} if options is None else {"stream_options": options}
        status, body, headers = open_.chat(stream=True, **more)
        assert status == 200 and body.endswith(b"data: [DONE]\n\n")
        assert (b'"usage"' in body) is shown
        line = open_.line(headers["x-request-id"])
        assert (line["prompt_tokens"], line["completion_tokens"], line["stream"]) == (7, 3, True)
        assert line["prefill"] == "remote"


def test_a_client_that_leaves_is_noted(open_: Process) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", open_.port, timeout=20)
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "9"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"content-type": "application/json", "x-request-id": "left-1"})  # fmt: skip
    answer = connection.getresponse()
    answer.read(10)
    answer.close()
    connection.close()
    line = open_.line("left-1")
    assert line["status"] == 499
    assert open_.chat()[0] == 200, "its place is free again"


def test_the_trace_goes_on_from_the_callers(open_: Process) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    _, body, headers = open_.chat(headers={"traceparent": parent})
    assert json.loads(body)["id"] == parent  # tracing is off here: passed on as it came
    assert open_.line(headers["x-request-id"])["trace_id"] == parent.split("-")[1]


def test_web_pages_of_others_get_nothing(open_: Process) -> None:
    for origin, allowed in (("https://a.example", True), ("https://b.example", False)):
        _, _, headers = open_.chat(headers={"origin": origin})
        assert (headers.get("access-control-allow-origin") == origin) is allowed
        assert "access-control-allow-credentials" not in headers
    assert open_.ask("/docs")[0] == 404


def test_no_new_requests_while_draining(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        answers: list[tuple[int, bytes, Any]] = []
        thread = threading.Thread(target=lambda: answers.append(process.chat("2", stream=True)))
        thread.start()
        time.sleep(0.5)
        assert json.loads(process.ask("/test-drain")[1]) == {"draining": True, "in_flight": 1}
        status, body, headers = process.chat()
        assert (status, json.loads(body)["error"]["code"]) == (503, "draining")
        assert int(headers["retry-after"]) >= 1
        assert process.ask("/ready")[0] == 503
        thread.join()
        assert answers[0][1].endswith(b"data: [DONE]\n\n")
        assert json.loads(process.ask("/ready")[1])["in_flight"] == 0
