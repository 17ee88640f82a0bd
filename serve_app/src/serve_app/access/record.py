"""What is noted of one HTTP request, for its log line, its metrics, its trace and its key's use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

ROUTES = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/audio/transcriptions": "transcriptions",
    "/v1/score": "score",
    "/v1/models": "models",
    "/tokenize": "tokenize",
    "/detokenize": "detokenize",
    "/health": "health",
    "/ready": "ready",
    "/metrics": "metrics",
}
"""Path → the route's name in metrics. Everything else is one name, whatever clients make up."""


@dataclass
class Record:
    """status: 0 until one was sent. Times: of time.monotonic(). usage: as in the answer."""

    request_id: str
    method: str
    path: str
    key: str | None = None
    model: str | None = None
    stream: bool = False
    status: int = 0
    started: float = field(default_factory=time.monotonic)
    first_at: float | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    trace_id: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def route(self) -> str:
        """The route's name."""
        if self.path.startswith("/v1/models/"):
            return "models"
        return ROUTES.get(self.path, "other")

    def first(self) -> None:
        """The first item of an answer is there."""
        self.first_at = self.first_at or time.monotonic()

    def used(self, name: str) -> int:
        """`prompt_tokens` or `completion_tokens`; 0 when nothing was computed, or nothing said."""
        value = (self.usage or {}).get(name)
        return value if isinstance(value, int) else 0

    @property
    def tokens(self) -> int | None:
        """All tokens, None when that was never known: a stream that broke off."""
        if self.usage is None:
            return 0 if self.status >= 400 and self.first_at is None else None
        return self.used("prompt_tokens") + self.used("completion_tokens")

    def as_json(self) -> dict[str, Any]:
        """The log line's facts. Nothing of what was asked or answered, and never a key."""
        details = (self.usage or {}).get("prompt_tokens_details") or {}
        line: dict[str, Any] = {
            "request_id": self.request_id, "method": self.method, "route": self.route, "status": self.status,
            "model": self.model, "key": self.key, "stream": self.stream, "error": self.error,
            "prompt_tokens": self.used("prompt_tokens") if self.usage else None,
            "cached_tokens": details.get("cached_tokens"),
            "completion_tokens": self.used("completion_tokens") if self.usage else None,
            "ttft_s": None if self.first_at is None else round(self.first_at - self.started, 4),
            "total_s": round(time.monotonic() - self.started, 4),
            "trace_id": self.trace_id,
        }  # fmt: skip
        return {**line, **self.facts}
