"""Starts `serve_app serve` for the tests, and finds the processes of a replica to kill.

$SERVE_APP_URL names a stack that runs already (prefill/decode at /, one node at /single); nothing is started then.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINE = {"max_model_len": 2048, "dtype": "float32", "enforce_eager": True, "max_num_seqs": 16,
          "enable_auto_tool_choice": True, "tool_call_parser": "hermes"}  # fmt: skip
ENVIRONMENT = {"env_vars": {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}}
START_S = 900.0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Stack:
    """A running endpoint. log: its output so far, None for one that was there already."""

    url: str
    log: Path | None
    process: subprocess.Popen[bytes] | None

    def post(self, path: str, body: dict[str, Any], timeout_s: float = 120.0) -> tuple[int, Any, float]:
        """Status (0: no answer), JSON body, seconds."""
        return self._open(self._request(path, body), timeout_s)

    def stream(self, path: str, body: dict[str, Any], timeout_s: float = 60.0) -> http.client.HTTPResponse:
        """An open stream, to read lines of."""
        opened: http.client.HTTPResponse = OPENER.open(self._request(path, {**body, "stream": True}), timeout=timeout_s)
        return opened

    def _request(self, path: str, body: dict[str, Any] | None = None) -> urllib.request.Request:
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(self.url + path, data, {"content-type": "application/json"})  # noqa: S310

    def get(self, path: str) -> tuple[int, Any, float]:
        """The same for GET."""
        return self._open(self._request(path), 30.0)

    def head(self, path: str, body: dict[str, Any]) -> tuple[int, float, dict[str, str]]:
        """Status, seconds and headers (names in small letters) of an answer whose body does not matter."""
        start = time.monotonic()
        try:
            with OPENER.open(self._request(path, body), timeout=120.0) as response:
                response.read()
                status, headers = response.status, response.headers
        except urllib.error.HTTPError as error:
            error.read()
            status, headers = error.code, error.headers
        return status, time.monotonic() - start, {name.lower(): value for name, value in headers.items()}

    def usage(self) -> dict[str, float]:
        """Role → share of KV blocks in use (the fullest replica).

        Tiny requests first: an engine's gauge moves with its steps only, and shows what was in use at the last one.
        """
        for _ in range(2):
            self.post("/v1/completions", {"model": "demo", "prompt": f"tick {time.time_ns()}", "max_tokens": 1})
            time.sleep(0.2)
        found: dict[str, float] = {}
        for labels, value in self.samples("vllm:kv_cache_usage_perc"):
            for role in ("prefill", "decode"):
                if f'role="{role}"' in labels:
                    found[role] = max(found.get(role, 0.0), value)
        return found

    def expired(self) -> float:
        """Prompts whose lease ran out on prefill before decode said that it had read them."""
        return sum(value for _, value in self.samples("vllm:nixl_num_kv_expired_reqs_total"))

    def samples(self, name: str) -> list[tuple[str, float]]:
        """Labels and value of a metric's samples."""
        lines = [line for line in self.text("/metrics").splitlines() if line.startswith(name + "{")]
        return [(line.rsplit(" ", 1)[0], float(line.rsplit(" ", 1)[1])) for line in lines]

    def text(self, path: str) -> str:
        """A GET's body as text."""
        with OPENER.open(self._request(path), timeout=30.0) as response:
            found: str = response.read().decode()
        return found

    @staticmethod
    def _open(request: urllib.request.Request, timeout_s: float) -> tuple[int, Any, float]:
        start = time.monotonic()
        try:
            with OPENER.open(request, timeout=timeout_s) as response:
                return response.status, json.load(response), time.monotonic() - start
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), time.monotonic() - start
        except OSError as error:
            return 0, repr(error), time.monotonic() - start

    def state(self) -> dict[str, Any]:
        """The model's part of /ready."""
        _, body, _ = self.get("/ready")
        found: dict[str, Any] = body["models"]["demo"]
        return found

    def wait_whole(self, timeout_s: float = 600.0) -> None:
        """Until nothing is degraded."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            status, body, _ = self.get("/ready")
            if status == 200 and body["degraded"] == []:
                return
            time.sleep(1.0)
        raise TimeoutError(f"still degraded after {timeout_s} s: {body}")


@dataclass(frozen=True)
class Places:
    """Custom resources of the nodes that the parts of a stack go to; without them all share one node.

    prefill, decode: also how many replicas. environment: for the engines. kv_transfer: more of that block, where every
    prompt travels unless it says otherwise.
    """

    front: str = ""
    prefill: tuple[str, int] = ("", 1)
    decode: tuple[str, int] = ("", 1)
    environment: tuple[tuple[str, str], ...] = ()
    kv_transfer: tuple[tuple[str, Any], ...] = ()


HERE = Places(kv_transfer=(("allow_same_node", True),))


def configuration(model: Path, places: Places = HERE) -> dict[str, Any]:
    """Prefill/decode at /, the same model on one node at /single."""
    environment = {"env_vars": {**ENVIRONMENT["env_vars"], **dict(places.environment)}}
    split: dict[str, Any] = {
        "model": {"id": "demo", "source": str(model), "engine": ENGINE},
        "kv_transfer": {"min_tokens": 0, **dict(places.kv_transfer)},
    }
    for role in ("prefill", "decode"):
        resource, replicas = getattr(places, role)
        split[role] = {"runtime_env": environment, "replicas": replicas, **_bundle(resource)}
    # 40 blocks of 128 tokens: prefill's pool is small, and busy with a few long prompts.
    split["prefill"]["engine"] = {"num_gpu_blocks_override": 40}
    ingress: dict[str, Any] = {"num_replicas": 1}
    if places.front:
        ingress["ray_actor_options"] = {"num_cpus": 1, "resources": {places.front: 0.01}}
    split["ingress"] = ingress
    engine: dict[str, Any] = {
        "model_loading_config": {"model_id": "demo", "model_source": str(model)}, "engine_kwargs": ENGINE,
        "runtime_env": ENVIRONMENT, "deployment_config": {"num_replicas": 1},
    }  # fmt: skip
    if places.front:
        engine["placement_group_config"] = _bundle(places.front)["placement"]
    one = {"llm_configs": [engine], "ingress_deployment_config": ingress}
    return {"applications": [
        {"name": "pd", "route_prefix": "/", "import_path": "serve_app:build_pd_app", "args": split},
        {"name": "single", "route_prefix": "/single", "import_path": "serve_app:build_app", "args": one},
    ]}  # fmt: skip


def _bundle(resource: str) -> dict[str, Any]:
    return {"placement": {"bundles": [{"CPU": 1, resource: 0.01}]}} if resource else {}


def _model(folder: Path) -> Path:
    model = folder / "model"
    if not model.exists():
        command = [sys.executable, "-m", "serve_app", "demo-model", str(model)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return model


def note(name: str, figures: Any) -> None:
    """Adds what was measured to the file that $SERVE_APP_FIGURES names."""
    path = os.environ.get("SERVE_APP_FIGURES")
    if path:
        whole = json.loads(Path(path).read_text()) if Path(path).exists() else {}
        Path(path).write_text(json.dumps({**whole, name: figures}, indent=1) + "\n")


@contextlib.contextmanager
def spread(folder: Path, cluster: Any, places: Places, whole: bool = True) -> Iterator[Stack]:
    """A stack on the nodes of a cluster (cluster.Cluster) that is up. whole: prefill is waited for, too."""
    config = folder / "spread.yaml"
    config.write_text(json.dumps(configuration(_model(folder), places)))
    log = folder / "spread.log"
    arguments = ["-m", "serve_app", "serve", str(config), "--host", "0.0.0.0", "--port", "8000",
                 "--address", f"{cluster.address(cluster.head)}:6399"]  # fmt: skip
    with log.open("wb") as out:
        process = cluster.popen(cluster.head, arguments, out)
    try:
        _wait(process, log)
        stack = Stack(f"http://{cluster.address(cluster.head)}:8000", log, process)
        if whole:
            stack.wait_whole()
        yield stack
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextlib.contextmanager
def running(folder: Path, port: int = 8765, places: Places = HERE) -> Iterator[Stack]:
    """A stack for the time of the block. Raises RuntimeError with the end of the log when it does not come up."""
    given = os.environ.get("SERVE_APP_URL")
    if given:
        yield Stack(given.rstrip("/"), None, None)
        return
    config = folder / "stack.yaml"
    config.write_text(json.dumps(configuration(_model(folder), places)))
    log = folder / "stack.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "serve_app", "serve", str(config), "--host", "127.0.0.1", "--port", str(port)],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, log)
        stack = Stack(f"http://127.0.0.1:{port}", log, process)
        stack.wait_whole()
        yield stack
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _wait(process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if " ready: " in log.read_text(errors="replace"):
            return
        time.sleep(1.0)
    raise RuntimeError("the stack did not come up:\n" + log.read_text(errors="replace")[-4000:])


def replicas(name: str) -> list[int]:
    """Process ids of Serve's replicas of a deployment (`Prefill`, `Decode`, `LLMServer`)."""
    return [pid for pid, line in _lines().items() if line.startswith("ray::ServeReplica") and f":{name}:" in line]


def engine_core(replica: int) -> int:
    """Process id of the engine core below a replica."""
    lines = _lines()
    for pid, line in lines.items():
        if "EngineCore" in line and _parent(pid) == replica:
            return pid
    raise LookupError(f"no engine core below {replica}")


def _lines() -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(text[text.rindex(")") + 2 :].split()[1])
