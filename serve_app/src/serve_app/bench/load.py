"""Runs vLLM's load generator (see the package's docstring) in this process and keeps every request's times."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serve_app.bench.figures import Run
from serve_app.bench.traces import Trace
from serve_app.errors import MissingError, ServeAppError

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Target:
    """An endpoint under test. name: "pd" or "one". url: without /v1. key: an API key, or None."""

    name: str
    url: str
    model: str
    key: str | None = None


@dataclass(frozen=True)
class Asked:
    """One run: `requests` at `rate` a second (inf: all at once, at most `concurrency` at a time)."""

    trace: Trace
    rate: float
    requests: int
    seed: int
    concurrency: int | None = None


def model_of(url: str, key: str | None = None) -> tuple[str, int | None, str | None]:
    """The first model's id, its context length and its folder, where /v1/models tells them.

    Raises ServeAppError when the endpoint does not answer.
    """
    request = urllib.request.Request(f"{url}/v1/models")  # noqa: S310 - the user's own endpoint
    if key:
        request.add_header("authorization", f"Bearer {key}")
    try:
        with OPENER.open(request, timeout=30) as answer:
            first = json.load(answer)["data"][0]
    except (OSError, ValueError, LookupError) as error:
        raise ServeAppError(f"{url}: no list of models there ({error}); is the endpoint up, and the URL without /v1?"
                            ) from None  # fmt: skip
    metadata = first.get("metadata") or {}
    length = first.get("max_model_len") or (metadata.get("engine_kwargs") or {}).get("max_model_len")
    source = first.get("root") or (metadata.get("model_loading_config") or {}).get("model_source")
    return str(first["id"]), int(length) if length else None, source if isinstance(source, str) else None


class Generator:
    """vLLM's generator, imported once: that takes ten seconds. tokenizer: a folder or a hub's name."""

    def __init__(self, tokenizer: str, log: Path | None = None) -> None:
        try:
            from vllm.benchmarks import serve
            from vllm.utils.argparse_utils import FlexibleArgumentParser
        except ImportError as error:
            raise MissingError(f"the load generator is vLLM's, which is not here ({error}); run this in the image"
                               ) from None  # fmt: skip
        self._serve = serve
        self._parser = FlexibleArgumentParser()
        serve.add_cli_args(self._parser)
        self._tokenizer = tokenizer
        self._log = log

    def run(self, target: Target, asked: Asked) -> Run:
        """One run against one target. Raises ServeAppError when the generator gives up."""
        words = [
            "--backend", "openai", "--base-url", target.url, "--endpoint", "/v1/completions",
            "--model", target.model, "--served-model-name", target.model, "--tokenizer", self._tokenizer,
            "--num-prompts", str(asked.requests), "--request-rate", str(asked.rate), "--seed", str(asked.seed),
            "--temperature", "0", "--ignore-eos", "--disable-tqdm", *asked.trace.arguments(asked.requests),
        ]  # fmt: skip
        if asked.concurrency:
            words += ["--max-concurrency", str(asked.concurrency)]
        if target.key:
            words += ["--header", f"Authorization=Bearer {target.key}"]
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                found: dict[str, Any] = asyncio.run(self._serve.main_async(self._parser.parse_args(words)))
        except (Exception, SystemExit) as error:
            raise ServeAppError(
                f"{target.url}: the load generator gave up on trace {asked.trace.name}: {error or type(error).__name__}"
            ) from error
        finally:
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(said.getvalue())
        return read(found)


def read(found: dict[str, Any]) -> Run:
    """A run from what `vllm bench serve` saves in detail: a request without a first token has failed."""
    kept = [
        (ttft, tuple(gaps), output)
        for ttft, gaps, output, error in zip(
            found["ttfts"], found["itls"], found["output_lens"], found["errors"], strict=True
        )
        if not error and ttft > 0 and not math.isnan(ttft)
    ]
    return Run(
        ttft=tuple(ttft for ttft, _, _ in kept),
        itl=tuple(gaps for _, gaps, _ in kept),
        output=tuple(int(output) for _, _, output in kept),
        failed=len(found["ttfts"]) - len(kept),
        duration_s=float(found["duration"]),
        extra={},
    )
