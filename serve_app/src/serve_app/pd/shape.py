"""The requests that one client request becomes. Pure: works on vLLM's request models by their attributes only.

What Ray LLM 2.60 does here is to send the request itself to prefill with max_tokens set to 1, and prefill's
kv_transfer_params with the request itself to decode. That is right for one prompt and one choice. It is wrong
- for a list of prompts: the answer carries the parameters of the first only, all prompts then decode on its KV;
- for n > 1 and beam search: the children share one remote request id, and prefill frees its blocks at the first
  notification while the others still read (https://github.com/vllm-project/vllm/issues/21570 shows the effect);
- for min_tokens: it stays, and is more than max_tokens then (refused with 400).
So a compound request is taken apart: each prompt is prefilled and fetched once, into decode's prefix cache, and the
request itself then runs on decode as it would on one node.
"""

from __future__ import annotations

import math
from typing import Any

PREFILL_PARAMS: dict[str, Any] = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

ONE_TOKEN = {
    "max_tokens": 1,
    "max_completion_tokens": 1,
    "min_tokens": 0,
    "n": 1,
    "best_of": None,
    "use_beam_search": False,
    "stream": False,
    "stream_options": None,
    "logprobs": None,
    "top_logprobs": 0,
    "logprob_token_ids": None,
    "prompt_logprobs": None,
    "echo": False,
}
"""What a copy that only has to fill the KV cache asks for. Everything that shapes the prompt stays: messages, tools,
tool_choice, chat template arguments, truncation, the adapter."""


def prompts(request: Any) -> list[Any] | None:
    """The prompts of a completion request, each as text or token ids; None for a chat, which has one."""
    prompt = getattr(request, "prompt", None)
    if not isinstance(prompt, list):
        return None if prompt is None else [prompt]
    if prompt and all(isinstance(item, int) for item in prompt):
        return [prompt]
    return list(prompt)


def local_reason(request: Any) -> str | None:
    """Why decode must compute this prompt itself, or None.

    Log probabilities of the prompt need the logits of every prompt token, which a transferred KV cache does not have:
    vLLM 0.29's decode engine dies of it (https://github.com/vllm-project/vllm/issues/50792).
    """
    if getattr(request, "prompt_logprobs", None) is not None:
        return "prompt_logprobs"
    if getattr(request, "echo", False) and hasattr(request, "messages"):
        return "echo_logprobs"  # for a chat vLLM makes prompt_logprobs of it, wanted or not
    wanted = getattr(request, "logprobs", None)
    if getattr(request, "echo", False) and wanted is not None and wanted is not False:  # 0 is wanted, too
        return "echo_logprobs"
    if getattr(request, "prompt_embeds", None):
        return "prompt_embeds"
    if prompts(request) == []:
        return "empty"
    return None


BYTES_A_TOKEN = 4
"""Of text, roughly, for tokenizers of large models; a guess that is off by half only moves a prompt's way."""

FRAME_TOKENS = 8
"""What a chat template puts around a message."""


def guess_tokens(request: Any) -> float:
    """About how many tokens its prompts have together, without a tokenizer; infinity where that can't be told."""
    many = prompts(request)
    if many is not None:
        return sum((len(p) if isinstance(p, list) else len(str(p).encode()) / BYTES_A_TOKEN) for p in many)
    total = 0.0
    for message in request.messages:
        content = _field(message, "content")
        parts = content if isinstance(content, list) else [content or ""]
        for part in parts:
            if not isinstance(part, str) and _field(part, "type") != "text":
                return math.inf  # an image, a sound
            total += len(str(part if isinstance(part, str) else _field(part, "text")).encode()) / BYTES_A_TOKEN
        total += FRAME_TOKENS + len(str(_field(message, "tool_calls") or "")) / BYTES_A_TOKEN
    return total + len(str(getattr(request, "tools", None) or "")) / BYTES_A_TOKEN


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


def compound(request: Any) -> bool:
    """True when one fetch of KV would serve more than one sequence."""
    many = prompts(request)
    return (
        (many is not None and len(many) > 1)
        or (getattr(request, "n", 1) or 1) > 1
        or bool(getattr(request, "use_beam_search", False))
    )


def _copy(request: Any, changes: dict[str, Any]) -> Any:
    copy = request.model_copy(deep=True)
    for name, value in changes.items():
        if hasattr(copy, name):
            setattr(copy, name, False if name == "logprobs" and isinstance(getattr(copy, name), bool) else value)
    return copy


def prefill_copies(request: Any, request_id: str) -> list[Any]:
    """What prefill is asked, one request a prompt."""
    shaped = _copy(request, {**ONE_TOKEN, "kv_transfer_params": dict(PREFILL_PARAMS)})
    many = prompts(request)
    if many is None:
        shaped.request_id = request_id
        return [shaped]
    copies = []
    for index, prompt in enumerate(many):
        one = shaped.model_copy(deep=True) if len(many) > 1 else shaped
        one.prompt = prompt
        one.request_id = request_id if len(many) == 1 else f"{request_id}-{index}"
        copies.append(one)
    return copies


def fetch_copy(prefill_request: Any, params: dict[str, Any]) -> Any:
    """What makes decode's engine fetch a prompt's KV into its prefix cache, and release it on prefill."""
    copy = prefill_request.model_copy(deep=True)
    copy.kv_transfer_params = params
    copy.request_id = f"{prefill_request.request_id}-fetch"
    return copy


def decode_copy(request: Any, params: dict[str, Any] | None) -> Any:
    """The request itself, with prefill's parameters where there are some."""
    copy = request.model_copy(deep=True)
    copy.kv_transfer_params = params
    return copy
