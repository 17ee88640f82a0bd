"""Requests that are answered 400 before an engine is asked. The closed list; each with its reason."""

from __future__ import annotations

from typing import Any

from serve_app.openai.errors import ApiError


def check(request: Any) -> None:
    """Raises ApiError for a request of the list.

    - kv_transfer_params: they tell an engine to read memory at an address. Never a client's to say; with Ray's own
      builder they end in a 500 under prefill/decode and are obeyed on one node.
    """
    if getattr(request, "kv_transfer_params", None) is not None:
        raise ApiError(400, "kv_transfer_params can't be set by a client.", param="kv_transfer_params",
                       code="unsupported_parameter")  # fmt: skip
