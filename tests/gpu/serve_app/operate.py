"""A prefill/decode stack with keys, limits, tracing and JSON logs on one host, and a collector for its spans."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ALICE, BOB = "sk-alice-0123456789", "sk-bob-0123456789abc"
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ENGINE = {"max_model_len": 2048, "dtype": "float32", "enforce_eager": True, "max_num_seqs": 4}
START_S = 600.0


class Collector:
    """Takes OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp/) and keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                import gzip

                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                message = ExportTraceServiceRequest.FromString(body)
                for resource in message.resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            outer.spans.append({
                                "name": span.name, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                                "parent": span.parent_span_id.hex(),
                                "seconds": str((span.end_time_unix_nano - span.start_time_unix_nano) / 1e9),
                            })  # fmt: skip
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@dataclass
class Answer:
    """Status 0: the connection broke."""

    status: int
    body: bytes
    headers: dict[str, str]
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Operated:
    """The stack. environment: for commands on the same machine, such as `serve_app drain`."""

    port: int
    log: Path
    keys: Path
    process: subprocess.Popen[bytes]
    collector: Collector
    environment: dict[str, str] = field(default_factory=dict)

    def ask(
        self, path: str, body: Any = None, key: str | None = ALICE, headers: dict[str, str] | None = None
    ) -> Answer:
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {
            "content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {}), **(headers or {})
        })  # fmt: skip
        start = time.monotonic()
        try:
            with OPENER.open(request, timeout=120) as response:
                return Answer(response.status, response.read(), dict(response.headers), time.monotonic() - start)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), dict(error.headers), time.monotonic() - start)
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, repr(error).encode(), {}, time.monotonic() - start)

    def chat(self, text: str = "hello", key: str | None = ALICE, headers: dict[str, str] | None = None,
             **more: Any) -> Answer:  # fmt: skip
        body = {"model": "demo", "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
        return self.ask("/v1/chat/completions", body, key, headers)

    def requests(self) -> list[dict[str, Any]]:
        """The log lines of requests."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and entry.get("event") == "request":
                    found.append(entry)
        return found

    def line(self, request_id: str, seconds: float = 10.0) -> dict[str, Any]:
        """The log line of one request. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for entry in self.requests():
                if entry["request_id"] == request_id:
                    return entry
            time.sleep(0.2)
        raise TimeoutError(request_id)


@contextlib.contextmanager
def running(folder: Path, port: int = 8766) -> Iterator[Operated]:
    """For the time of the block. Raises RuntimeError with the end of the log when it does not come up."""
    model = folder / "model"
    subprocess.run([sys.executable, "-m", "serve_app", "demo-model", str(model)], check=True, stdout=subprocess.DEVNULL)
    keys = folder / "keys.yaml"
    keys.write_text(
        json.dumps({"keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB, "concurrent": 1}]})
    )
    role = {"runtime_env": {"env_vars": {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}}}
    config = folder / "stack.yaml"
    config.write_text(json.dumps({
        "model": {"id": "demo", "source": str(model), "engine": ENGINE}, "prefill": role, "decode": role,
        "kv_transfer": {"allow_same_node": True, "min_tokens": 0},
        "endpoint": {"keys_file": str(keys), "metrics": "key", "max_body_bytes": 100_000, "max_tokens": 1500,
                     "drain_s": 60},
    }))  # fmt: skip
    collector = Collector()
    log = folder / "stack.log"
    environment = {
        **os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "500", "SERVE_APP_RUN": str(folder / "run"),
    }  # fmt: skip
    command = [sys.executable, "-m", "serve_app", "serve", str(config), "--host", "127.0.0.1", "--port", str(port),
               "--log-format", "json"]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment,
                                   start_new_session=True)  # fmt: skip
    operated = Operated(port, log, keys, process, collector, environment)
    try:
        _wait(operated)
        yield operated
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(100)
        collector.server.shutdown()


def _wait(operated: Operated) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and operated.process.poll() is None:
        ready = '"event": "ready"' in operated.log.read_text(errors="replace")
        if ready and operated.ask("/ready", key=None).status == 200:
            return
        time.sleep(1.0)
    raise RuntimeError("the stack did not come up:\n" + operated.log.read_text(errors="replace")[-6000:])
