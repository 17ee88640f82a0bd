"""What a replica tells the ingress about how it served a request: where the prompt was computed, and why there.

It travels in the stream of the answer, between the items, and never reaches the client.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_facts: ContextVar[dict[str, Any] | None] = ContextVar("serve_app_note", default=None)


@dataclass(frozen=True)
class Note:
    """facts: for the request's log line."""

    facts: dict[str, Any] = field(default_factory=dict)


def begin() -> dict[str, Any]:
    """New facts for the request that is being served; `put` fills them."""
    facts: dict[str, Any] = {}
    _facts.set(facts)
    return facts


def put(**facts: Any) -> None:
    """Notes something about the request that is being served; nothing happens outside of one."""
    current = _facts.get()
    if current is not None:
        current.update(facts)
