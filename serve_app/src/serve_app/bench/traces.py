"""The traces: what is asked, and how it arrives. Pure.

Lengths are fractions of the model's context, so that a trace means the same for a demo model and for one of 128 Ki.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from serve_app.errors import UsageError


@dataclass(frozen=True)
class Trace:
    """prompt, output: tokens a request. shared: tokens of the prompt that `group` requests in a row have in common.
    burstiness: of the gamma-distributed gaps between arrivals; 1 is Poisson, less comes in bursts.
    file: a user's own prompts instead (JSONL of {"prompt": text}, as vLLM's `custom` data set reads it)."""

    name: str
    what: str
    prompt: int
    output: int
    shared: int = 0
    group: int = 0
    burstiness: float = 1.0
    file: Path | None = None

    def arguments(self, requests: int) -> list[str]:
        """Options of `vllm bench serve` for this trace's data."""
        if self.file is not None:
            return ["--dataset-name", "custom", "--dataset-path", str(self.file), "--custom-output-len",
                    str(self.output), "--skip-chat-template", "--burstiness", str(self.burstiness)]  # fmt: skip
        if self.shared:
            return ["--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", str(self.shared),
                    "--prefix-repetition-suffix-len", str(self.prompt - self.shared),
                    "--prefix-repetition-num-prefixes", str(max(1, requests // self.group)),
                    "--prefix-repetition-output-len", str(self.output),
                    "--burstiness", str(self.burstiness)]  # fmt: skip
        return ["--dataset-name", "random", "--random-input-len", str(self.prompt), "--random-output-len",
                str(self.output), "--burstiness", str(self.burstiness)]  # fmt: skip


def standard(context: int) -> dict[str, Trace]:
    """The traces for a model of this context length, by name."""
    made = (
        Trace("chat", "short questions, answers of medium length", context // 16, context // 16),
        Trace("rag", "long prompts (retrieved documents), short answers", context * 3 // 4, context // 32),
        Trace("summary", "long prompts, longer answers", context // 2, context // 8),
        Trace("agent", "loops that repeat a long prefix", context // 2, context // 32, context * 3 // 8, 4),
        Trace("burst", "the chat's requests, arriving in bursts", context // 16, context // 16, burstiness=0.1),
    )
    return {trace.name: trace for trace in made}


def of_length(prompt: int, output: int) -> Trace:
    """One point of the sweep over prompt lengths."""
    return Trace(f"prompt-{prompt}", f"prompts of {prompt} tokens", prompt, output)


def own(path: Path, output: int) -> Trace:
    """A user's trace. Raises UsageError for a file that is no such JSONL."""
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: can't be read ({error})") from None
    for number, line in enumerate(lines, 1):
        try:
            good = isinstance(json.loads(line)["prompt"], str)
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise UsageError(f'{path}: line {number} is not {{"prompt": "text"}}; every line must be, one request each')
    if not lines:
        raise UsageError(f"{path}: holds no request")
    return Trace(path.stem, f"{path.name}, {len(lines)} requests", 0, output, file=path)
