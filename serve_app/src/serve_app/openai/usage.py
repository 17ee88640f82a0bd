"""Counts what a stream used, also where the client did not ask to be told.

OpenAI sends a last chunk with `usage` and no choices when `stream_options.include_usage` is set. The ingress always
sets it, and keeps that chunk from a client that did not.
"""

from __future__ import annotations

import json
from typing import Any

from serve_app.access.record import Record


def ask(request: Any) -> bool:
    """Makes the engine say the usage of a stream; true when the client must not see it."""
    if not getattr(request, "stream", False) or not hasattr(request, "stream_options"):
        return False
    options = request.stream_options
    if options is None:
        kind = _kind(request)
        if kind is None:
            return False
        request.stream_options = kind(include_usage=True)
        return True
    if getattr(options, "include_usage", None):
        return False
    if getattr(options, "continuous_usage_stats", False):
        return False  # without include_usage vLLM ignores it; with it every chunk would change
    options.include_usage = True
    return True


def _kind(request: Any) -> Any:
    """The class of stream_options, which vLLM's request model names; it has moved between releases."""
    from typing import get_args

    field = type(request).model_fields.get("stream_options")
    kinds = get_args(field.annotation) if field is not None else ()
    return next((kind for kind in kinds if hasattr(kind, "model_fields")), None)


class Watch:
    """Called with each event of a stream; false for one that the client must not see."""

    def __init__(self, record: Record, hidden: bool) -> None:
        self.record = record
        self.hidden = hidden

    def __call__(self, piece: str) -> bool:
        if self.record.first_at is None:
            self.record.first()
        if '"usage":{' not in piece:
            return True
        try:
            document = json.loads(piece[6:])
        except ValueError:
            return True
        found = document.get("usage") if isinstance(document, dict) else None
        if not isinstance(found, dict):
            return True
        self.record.usage = found
        return not (self.hidden and document.get("choices") == [])
