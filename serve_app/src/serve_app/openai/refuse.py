"""Requests that are answered 400 before an engine is asked. The closed list; each with its reason."""

from __future__ import annotations

from typing import Any

from serve_app.openai.errors import ApiError


def check(request: Any) -> None:
    """Raises ApiError for a request of the list.

    - kv_transfer_params: they tell an engine to read memory at an address. Never a client's to say; with Ray's own
      builder they end in a 500 under prefill/decode and are obeyed on one node.
    - allowed_token_ids: vLLM leaves the mask behind in its batch, and another client's request then samples from it:
      text that is silently wrong (https://github.com/vllm-project/vllm/issues/43894; measured on vLLM 0.29, one node
      and prefill/decode alike: one or two in a thousand requests of eight clients). `structured_outputs` is right.
    """
    if getattr(request, "kv_transfer_params", None) is not None:
        raise ApiError(400, "kv_transfer_params can't be set by a client.", param="kv_transfer_params",
                       code="unsupported_parameter")  # fmt: skip
    if getattr(request, "allowed_token_ids", None) is not None:
        raise ApiError(400, "allowed_token_ids is not supported: use structured_outputs.", param="allowed_token_ids",
                       code="unsupported_parameter")  # fmt: skip
