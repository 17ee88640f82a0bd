"""How large a request may be: its prompt, its number of answers, their length. Works on attributes only; pure."""

from __future__ import annotations

from typing import Any

from serve_app.access.settings import Endpoint
from serve_app.openai.errors import ApiError

CHARS_PER_TOKEN = 4
"""What a token id counts as, beside texts: about what it stands for in English."""

LENGTHS = ("max_completion_tokens", "max_tokens", "min_tokens")


def check(request: Any, endpoint: Endpoint) -> None:
    """Raises ApiError 400 for a request over a limit. Where a client says no max_tokens, the engine's own limit counts
    (app/load.py sets it), which makes room for the prompt as well."""
    limit = endpoint.max_choices
    if limit is not None and (found := choices(request)) > limit:
        raise ApiError(400, f"{found} answers were asked for; at most {limit} are given (n, best_of, prompts).",
                       param="n", code="too_many_choices")  # fmt: skip
    limit = endpoint.max_prompt_chars
    if limit is not None and (found := prompt_chars(request)) > limit:
        param = "messages" if hasattr(request, "messages") else "prompt"
        raise ApiError(400, f"The prompt has {found} characters; at most {limit} are taken.", param=param,
                       code="context_length_exceeded")  # fmt: skip
    if endpoint.max_tokens is not None:
        for name in LENGTHS:
            value = getattr(request, name, None)
            if value is not None and value > endpoint.max_tokens:
                raise ApiError(400, f"{name} is {value}; at most {endpoint.max_tokens} are given.", param=name,
                               code="invalid_value")  # fmt: skip


def choices(request: Any) -> int:
    """How many answers a request makes the engine compute."""
    each = max(getattr(request, "n", None) or 1, getattr(request, "best_of", None) or 1)
    prompt = getattr(request, "prompt", None)
    many = len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
    return int(each * many)


def prompt_chars(request: Any) -> int:
    """Characters of everything that becomes part of the prompt."""
    return sum(_chars(getattr(request, name, None)) for name in ("prompt", "messages", "suffix", "tools", "input"))


def _chars(value: Any) -> int:
    if isinstance(value, str):
        # An image or a sound inside a message is no text: max_body_bytes is its limit.
        return 0 if value.startswith("data:") else len(value)
    if isinstance(value, bool) or value is None:
        return 0
    if isinstance(value, (int, float)):
        return CHARS_PER_TOKEN
    if isinstance(value, dict):
        return sum(_chars(item) for item in value.values())
    if hasattr(value, "model_dump"):
        return _chars(value.model_dump())
    try:
        return sum(_chars(item) for item in value)
    except TypeError:
        return 0
