"""Many mixed requests to a prefill/decode endpoint and to one node: the same texts, and proof that KV was transferred.

    python benchmarks/pd_equal.py --pd http://127.0.0.1:8000 --one http://127.0.0.1:9000 --json result.json

Requests: prompts of 10 to about 3,000 tokens, 1 to 24 tokens out, every ninth with two or three seeded choices, every
thirteenth a list of two prompts; `concurrency` at a time. Texts are equal where the model computes in float32 (bfloat16
has near ties). Needs aiohttp, which the image has. Exit code 1 when a status or a text differs, or no KV was moved.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp

WORDS = ["the", "of", "and", "to", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are", "with", "his"]
COUNTERS = ("vllm:nixl_bytes_transferred_sum", "vllm:nixl_num_failed_transfers_total",
            "vllm:nixl_num_kv_expired_reqs_total", "vllm:nixl_xfer_time_seconds_sum")  # fmt: skip
SOURCES = "vllm:prompt_tokens_by_source_total"


def body(number: int, model: str, rng: random.Random) -> dict[str, Any]:
    """One request of the mix. Its number begins the prompt, so that no prompt is in a prefix cache."""
    count = rng.choice([8, 40, 120, 400, 900])
    prompt = f"{number} " + " ".join(rng.choices(WORDS + [f"w{i}" for i in range(50)], k=count))
    asked: dict[str, Any] = {
        "model": model, "prompt": prompt, "max_tokens": rng.choice([1, 8, 24]), "temperature": 0, "logprobs": 1,
    }  # fmt: skip
    if number % 9 == 0:
        asked |= {"n": rng.choice([2, 3]), "temperature": 0.8, "seed": number}
    if number % 13 == 0:
        asked["prompt"] = [prompt, f"{number} once more {prompt[: len(prompt) // 2]}"]
    return asked


async def answers(
    session: aiohttp.ClientSession, url: str, bodies: list[dict[str, Any]], concurrency: int
) -> list[Any]:
    """(status, body) a request; status 0 where none came."""
    gate = asyncio.Semaphore(concurrency)

    async def one(asked: dict[str, Any]) -> tuple[int, Any]:
        async with gate:
            try:
                async with session.post(f"{url}/v1/completions", json=asked) as answer:
                    return answer.status, await answer.json()
            except (aiohttp.ClientError, TimeoutError) as error:
                return 0, repr(error)

    return await asyncio.gather(*(one(asked) for asked in bodies))


def texts(answer: Any) -> Any:
    """An answer's texts in their order; an error as it is."""
    if not isinstance(answer, dict) or "choices" not in answer:
        return answer
    return [choice["text"] for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]


async def counters(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """NIXL's and the prompt tokens' counters, added up over replicas; the tokens by role and source."""
    async with session.get(f"{url}/metrics") as answer:
        text = await answer.text()
    found: dict[str, float] = collections.defaultdict(float)
    for line in text.splitlines():
        name = line.partition("{")[0]
        if name in COUNTERS:
            found[name] += float(line.rsplit(" ", 1)[1])
        elif name == SOURCES:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            found[f"{labels.get('role', '')} {labels['source']}"] += float(line.rsplit(" ", 1)[1])
    return dict(found)


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Both endpoints, one after the other."""
    rng = random.Random(args.seed)  # noqa: S311 - reproducible, not secret
    bodies = [body(number, args.model, rng) for number in range(args.requests)]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
        before = await counters(session, args.pd)
        started = time.monotonic()
        split = await answers(session, args.pd, bodies, args.concurrency)
        took = time.monotonic() - started
        after = await counters(session, args.pd)
        single = await answers(session, args.one, bodies, args.concurrency)
    different = [
        i for i, (a, b) in enumerate(zip(split, single, strict=True)) if (a[0], texts(a[1])) != (b[0], texts(b[1]))
    ]
    gaps = [
        abs(p - q)
        for a, b in zip(split, single, strict=True) if a[0] == b[0] == 200 and texts(a[1]) == texts(b[1])
        for x, y in zip(a[1]["choices"], b[1]["choices"], strict=True)
        for p, q in zip(x["logprobs"]["token_logprobs"], y["logprobs"]["token_logprobs"], strict=True)
    ]  # fmt: skip
    return {
        "requests": args.requests, "concurrency": args.concurrency, "seed": args.seed, "seconds": round(took, 2),
        "status": dict(collections.Counter(str(status) for status, _ in split)),
        "equal": args.requests - len(different), "different": different[:20],
        "largest_logprob_difference": max(gaps, default=None),
        "counters": {name: value - before.get(name, 0.0) for name, value in after.items()},
    }  # fmt: skip


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pd", required=True, metavar="URL")
    parser.add_argument("--one", required=True, metavar="URL")
    parser.add_argument("--model", default="demo")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    result = asyncio.run(measure(args))
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        args.json.write_text(text + "\n")
    moved = result["counters"].get("vllm:nixl_bytes_transferred_sum", 0) > 0
    return 0 if result["status"] == {"200": args.requests} and not result["different"] and moved else 1


if __name__ == "__main__":
    sys.exit(main())
