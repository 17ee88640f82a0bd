"""Ray on the two nodes, serve_app's prefill/decode on it, and questions asked from the first node."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slipway.testing.metrics import Metrics, parse
from tests.gpu.harness.fixtures import Pair
from tests.gpu.harness.node import Node

START_S = 840.0
"""For Ray and two engines on two cores that others use, too; 60 s on an idle machine."""

RAY_PORT, HTTP_PORT = 6379, 8000
LOG, MODEL, CONFIG = "/tmp/slipway-serve.log", "/tmp/slipway-model", "/tmp/slipway-pd.json"
BLOCK = 128

ASK = """
import json, sys, urllib.error, urllib.request
url, path = sys.argv[1:3]
body = json.loads(sys.argv[3]) if len(sys.argv) > 3 else None
data = None if body is None else json.dumps(body).encode()
request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
try:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=600) as answer:
        print(json.dumps([answer.status, answer.read().decode()]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, error.read().decode()]))
"""

REPLICAS = """
import json
from serve_app.doctor.checks.placement import replicas
from serve_app.doctor.node import Node
print(json.dumps(sorted(replicas(Node()))))
"""


@dataclass(frozen=True)
class Stack:
    """A running service. decode, prefill: the nodes on which those were found."""

    pair: Pair
    decode: Node
    prefill: Node
    nodes: dict[str, list[str]]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> str:
        """An answer's body; fails unless its status is 200."""
        words = [f"http://127.0.0.1:{HTTP_PORT}", path, *([json.dumps(body)] if body is not None else [])]
        status, text = json.loads(self.pair.a.python(ASK, *words, timeout=660))
        assert status == 200, f"{path}: {status} {text}\n{self.log()}"
        return str(text)

    def log(self, lines: int = 60) -> str:
        """The end of what the service said."""
        return self.pair.a.run("tail", "-n", str(lines), LOG, check=False).out

    def warm(self, prompt: list[int], timeout: float = 300.0) -> None:
        """Until a prompt of the real length is answered: engines compile at first, and 503 means try again later. No
        question whose bytes are counted is asked twice.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                self.complete(prompt, 1)
                return
            except AssertionError as error:
                if "503" not in str(error).splitlines()[0] or time.monotonic() > end:
                    raise
                time.sleep(5)

    def complete(self, prompt: list[int], tokens: int, **more: Any) -> dict[str, Any]:
        """The choice of a greedy completion with log probabilities."""
        body = {"model": "demo", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1, **more}
        choice: dict[str, Any] = json.loads(self.ask("/v1/completions", body))["choices"][0]
        return choice

    def alone(self, prompt: list[int], tokens: int) -> dict[str, Any]:
        """The same, all of it computed by decode: log probabilities of the prompt need every token of it, so that
        neither a transfer nor a cache is used. The metrics say whether that is so.
        """
        return self.complete(prompt, tokens, prompt_logprobs=0)

    def metrics(self) -> Metrics:
        """Of all replicas."""
        return parse(self.ask("/metrics"))


def configuration(pair: Pair, backend: str) -> dict[str, Any]:
    """serve_app's short form. Over tcp UCX is told so: between containers of one machine it takes shared memory."""
    over_tcp = {"UCX_TLS": "tcp", "FI_PROVIDER": "tcp"} if pair.fabric == "tcp" else {}
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"} if pair.device == "cpu" else {}
    role = {"runtime_env": {"env_vars": {**over_tcp, **variables}}}
    engine = {"max_model_len": 4096, "dtype": "float32", "enforce_eager": True, "max_num_seqs": 8, "block_size": BLOCK}
    return {
        "model": {"id": "demo", "source": MODEL, "engine": engine},
        "prefill": role,
        "decode": role,
        # A loaded machine is slow, and a replica that is slow is not dead.
        "endpoint": {"accept_s": 60, "silence_s": 60},
        "kv_transfer": {"fabric": backend, "silence_s": 60, "wait_for_prefill": True, "lease_s": 120},
    }


@contextlib.contextmanager
def running(pair: Pair, backend: str) -> Iterator[Stack]:
    """Prefill and decode on the two nodes, for the time of the block. backend: ucx or libfabric."""
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    common = ["--num-cpus=8", "--object-store-memory=100000000", "--disable-usage-stats", "--block"]
    with contextlib.ExitStack() as stack:
        for node in (pair.a, pair.b):
            node.run("serve_app", "demo-model", MODEL, timeout=300)
            head = node is pair.a
            where = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"] if head else [
                f"--address={pair.a.address}:{RAY_PORT}"]  # fmt: skip
            words = ["ray", "start", *where, f"--node-ip-address={node.address}", *common]
            log = "/tmp/slipway-ray.log"
            pid = stack.enter_context(node.running(*words, log=log, env=env))
            node.wait_for("Ray runtime started", log, 300, pid)
        pair.a.run("sh", "-c", f"cat > {CONFIG}", data=json.dumps(configuration(pair, backend)).encode())
        words = ["serve_app", "serve", CONFIG, "--address", f"{pair.a.address}:{RAY_PORT}", "--port", str(HTTP_PORT)]
        pid = stack.enter_context(pair.a.running(*words, log=LOG, env=env))
        pair.a.wait_for(" ready: ", LOG, START_S, pid)
        roles = {node.name: json.loads(node.python(REPLICAS)) for node in (pair.a, pair.b)}
        nodes = {
            role: [name for name, found in roles.items() if role.capitalize() in found]
            for role in ("prefill", "decode")
        }
        decode = next((node for node in (pair.a, pair.b) if node.name in nodes["decode"]), pair.a)
        prefill = next((node for node in (pair.a, pair.b) if node.name in nodes["prefill"]), pair.b)
        yield Stack(pair, decode, prefill, nodes)
