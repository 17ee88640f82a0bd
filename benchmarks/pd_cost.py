#!/usr/bin/env python3
"""What prefill/decode and the ingress cost: short chats to P/D, to one node, and to vLLM's own server, in turns.

    python benchmarks/pd_cost.py [--requests 200] [--min-tokens 128] [--json FILE]
                                                                 (with the image's Python, serve_app importable)

Everything runs at once on this machine and is asked in the order A B C A B C … at concurrency 1, so that all of them
see the same load. Bars: P/D's median at most 10 % above one node's, its p99 at most twice; the ingress at most 3 ms
above the engine's own server (vLLM's, same model, same options).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "gpu" / "serve_app"))

import stack as stacks  # noqa: E402

OWN_PORT = 8799
WARM = 10


@contextlib.contextmanager
def own_server(model: Path, log: Path) -> Iterator[str]:
    """vLLM's OpenAI server with the engine options of the stack; its base address."""
    options = {"--max-model-len": "2048", "--dtype": "float32", "--max-num-seqs": "16", "--port": str(OWN_PORT),
               "--host": "127.0.0.1", "--served-model-name": "demo", "--model": str(model)}  # fmt: skip
    flags = [word for pair in options.items() for word in pair] + ["--enforce-eager"]
    environment = {**os.environ, **stacks.ENVIRONMENT["env_vars"], "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags],
                                   stdout=out, stderr=out, env=environment, start_new_session=True)  # fmt: skip
    try:
        end = time.monotonic() + 300
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", OWN_PORT, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    yield f"http://127.0.0.1:{OWN_PORT}"
                    return
            time.sleep(0.5)
        raise SystemExit("vLLM's server did not come up:\n" + log.read_text(errors="replace")[-3000:])
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


class Target:
    """One connection that is kept."""

    def __init__(self, base: str) -> None:
        host, _, rest = base.removeprefix("http://").partition("/")
        self.prefix = f"/{rest}" if rest else ""
        self.connection = http.client.HTTPConnection(host, timeout=60)
        self.seconds: list[float] = []

    def ask(self, number: int, keep: bool) -> None:
        """A short chat that no cache knows."""
        content = f"{number}-{time.time_ns()}: what is a free program? Say it in a few words."
        chat = {"model": "demo", "messages": [{"role": "user", "content": content}], "max_tokens": 8,
                "temperature": 0, "ignore_eos": True}  # fmt: skip
        start = time.perf_counter()
        self.connection.request("POST", f"{self.prefix}/v1/chat/completions", json.dumps(chat),
                                {"content-type": "application/json"})  # fmt: skip
        response = self.connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise SystemExit(f"{response.status}: {answer[:500]!r}")
        if keep:
            self.seconds.append(time.perf_counter() - start)

    def figures(self) -> dict[str, float]:
        """Milliseconds."""
        ordered = sorted(self.seconds)
        return {"median": _ms(ordered[len(ordered) // 2]), "p99": _ms(ordered[int(len(ordered) * 0.99)]),
                "least": _ms(ordered[0]), "most": _ms(ordered[-1])}  # fmt: skip


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--min-tokens", type=int, default=128, help="shorter prompts stay with decode; 0: none does")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is taken down
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        places = stacks.Places(kv_transfer=(("allow_same_node", True), ("min_tokens", args.min_tokens)))
        stack = exits.enter_context(stacks.running(folder, places=places))
        own = exits.enter_context(own_server(folder / "model", folder / "own.log"))
        targets = {"pd": Target(stack.url), "single": Target(stack.url + "/single"), "own": Target(own)}
        for number in range(-WARM, args.requests):
            for target in targets.values():
                target.ask(number, keep=number >= 0)
        counts = stack.state()["counts"]
    result: dict[str, Any] = {
        "date": str(datetime.date.today()), "cores": os.cpu_count(), "load_before": load, "requests": args.requests,
        "min_tokens": args.min_tokens,
        "counts": counts, "milliseconds": {name: target.figures() for name, target in targets.items()},
        "raw": {name: [_ms(s) for s in target.seconds] for name, target in targets.items()},
    }  # fmt: skip
    figures: Any = result["milliseconds"]
    print("| | median ms | p99 ms |\n|---|---|---|")
    for name, found in figures.items():
        print(f"| {name} | {found['median']} | {found['p99']} |")
    pd, single, engine = figures["pd"], figures["single"], figures["own"]
    added = single["median"] - engine["median"]
    print(f"P/D adds {100 * (pd['median'] / single['median'] - 1):.0f} % to the median, ", end="")
    print(f"its p99 is {pd['p99'] / single['p99']:.2f} times; the ingress adds {added:.1f} ms")
    print(counts)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
