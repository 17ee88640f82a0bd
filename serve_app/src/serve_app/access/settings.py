"""The `endpoint` block of a configuration: what the ingress allows and how long it waits."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Endpoint:
    """Times in seconds. None: no limit.

    keys_file: API keys (access/keys.py); without one the endpoint is open.
    metrics: GET /metrics is for everybody, for a key, or not there. /health and /ready are always open.
    docs: /docs and /openapi.json. cors_origins: web pages of these origins may ask, never with cookies.
    max_body_bytes: a longer body gets 413 before it is parsed. max_prompt_chars: of all texts of a request together; a
      token id counts as 4. max_choices: answers of one request (n, best_of, a list of prompts). max_tokens: tokens of
      one answer; where the client says none, this is what it gets.
    max_in_flight: requests at a time over all ingress replicas; one more gets 429 at once.
    request_s: an answer is complete by then. keep_alive_s: a stream is never silent for longer.
    accept_s: a replica must have taken the request by then, the wait in Serve's queue included; silence_s: after that
      it must not be silent for longer, while it beats every beat_s. This is how a lost node or link is noticed. The two
      together stay under 15 s: a request that is begun once more elsewhere is answered by then.
    drain_s: how long running requests may take to end when the service stops.
    log_requests: one JSON line a request on standard output.
    """

    keys_file: str | None = None
    metrics: Literal["open", "key", "off"] = "open"
    docs: bool = False
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int | None = 32 * 1024 * 1024
    max_prompt_chars: int | None = None
    max_choices: int | None = 128
    max_tokens: int | None = None
    max_in_flight: int | None = None
    request_s: float = 600.0
    keep_alive_s: float = 15.0
    accept_s: float = 6.0
    silence_s: float = 8.0
    beat_s: float = 2.0
    drain_s: float = 20.0
    log_requests: bool = True

    @classmethod
    def of(cls, block: dict[str, Any] | None, **derived: Any) -> Endpoint:
        """From a checked block; `derived` counts where the block says nothing."""
        given = {key: value for key, value in (block or {}).items() if value is not None}
        if "cors_origins" in given:
            given["cors_origins"] = tuple(given["cors_origins"])
        return cls(**{**derived, **given})


COUNTS = ("max_body_bytes", "max_prompt_chars", "max_choices", "max_tokens", "max_in_flight")
TIMES = ("request_s", "keep_alive_s", "accept_s", "silence_s", "beat_s", "drain_s")


def known() -> dict[str, dict[str, Any]]:
    """The keys of the block, as the checker wants them."""
    return {
        "keys_file": {"kinds": ["str"]},
        "metrics": {"kinds": ["choice"], "choices": ["key", "off", "open"]},
        "docs": {"kinds": ["bool"]},
        "cors_origins": {"kinds": ["list"]},
        "log_requests": {"kinds": ["bool"]},
        **{name: {"kinds": ["int"]} for name in COUNTS},
        **{name: {"kinds": ["float"]} for name in TIMES},
    }


def faults(block: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """(key, what is wrong, remedy) for values that have the right kind and make no sense."""
    defaults = {field.name: field.default for field in dataclasses.fields(Endpoint)}
    merged = {**defaults, **{key: value for key, value in block.items() if value is not None}}
    found: list[tuple[str, str, str | None]] = [
        (key, f"must be more than 0, not {merged[key]}", None)
        for key in COUNTS + TIMES
        if merged[key] is not None and merged[key] <= 0 and key != "drain_s"
    ]
    if merged["drain_s"] < 0:
        found.append(("drain_s", f"must not be less than 0, not {merged['drain_s']}", None))
    if not found and merged["silence_s"] < 2 * merged["beat_s"]:
        found.append(
            ("silence_s", f"must be twice beat_s ({merged['beat_s']}) or more: one late beat is no death", None)
        )
    for index, origin in enumerate(merged["cors_origins"]):
        if not isinstance(origin, str) or not (origin == "*" or origin.startswith(("http://", "https://"))):
            found.append((f"cors_origins[{index}]", f"{origin!r} is no origin", 'write https://host or "*"'))
    if merged["metrics"] == "key" and not merged["keys_file"]:
        found.append(("metrics", "is for a key, and there are no keys", "set keys_file, or metrics: open"))
    return found
