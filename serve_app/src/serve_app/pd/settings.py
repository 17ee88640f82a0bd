"""The knobs of prefill/decode that Ray's schema has no place for: the `kv_transfer` block of a configuration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Settings:
    """All times in seconds.

    fabric: how KV travels. `efa`: NIXL's LIBFABRIC backend. `ucx`, `libfabric`: that NIXL backend. `auto`: efa where an
      EFA device is there, ucx elsewhere.
    on_failure: what decode does when a transfer fails: compute the prompt itself, or fail the request.
    allow_same_node: prefill and decode may share a node. Without it that is refused.
    min_tokens: a shorter prompt, by a guess from its text, is computed by decode: a KV block or less is a small step of
      its engine, and costs less than the way to prefill and back. None: decode's KV block size. 0: all prompts travel.
    progress_us: how long NIXL's progress thread rests between two looks at the network, in microseconds. With 0, which
      is NIXL's own, it turns a core of every engine, idle or not.
    lease_s: how long prefill keeps a prompt's blocks for decode (vLLM's kv_lease_duration).
    beat_s: a prefill that works says so this often; silence_s: without a word for this long it is taken for dead. A
      slow prefill is not dead: it beats.
    retry_s: how often a prefill that was taken for dead is asked whether it is back.
    local_prefill_limit: prompts that decode computes itself at the same time when prefill is away.
    request_s: an answer must be complete by then, whatever it waits for.
    wait_for_prefill: decode comes up only once prefill is there; else it starts degraded.
    """

    fabric: Literal["auto", "efa", "ucx", "libfabric"] = "auto"
    on_failure: Literal["recompute", "fail"] = "recompute"
    allow_same_node: bool = False
    min_tokens: int | None = None
    progress_us: int = 100
    lease_s: int = 30
    beat_s: float = 1.0
    silence_s: float = 5.0
    retry_s: float = 2.0
    local_prefill_limit: int = 4
    request_s: float = 600.0
    wait_for_prefill: bool = False

    @classmethod
    def of(cls, block: dict[str, Any] | None) -> Settings:
        """From a checked `kv_transfer` block."""
        return cls(**(block or {}))


def known() -> dict[str, dict[str, Any]]:
    """The keys of the block, as the checker wants them."""
    return {
        "fabric": {"kinds": ["choice"], "choices": ["auto", "efa", "libfabric", "ucx"]},
        "on_failure": {"kinds": ["choice"], "choices": ["fail", "recompute"]},
        "allow_same_node": {"kinds": ["bool"]},
        "min_tokens": {"kinds": ["int"]},
        "progress_us": {"kinds": ["int"]},
        "lease_s": {"kinds": ["int"]},
        "beat_s": {"kinds": ["float"]},
        "silence_s": {"kinds": ["float"]},
        "retry_s": {"kinds": ["float"]},
        "local_prefill_limit": {"kinds": ["int"]},
        "request_s": {"kinds": ["float"]},
        "wait_for_prefill": {"kinds": ["bool"]},
    }


def faults(block: dict[str, Any]) -> list[tuple[str, str]]:
    """(key, what is wrong) for values that have the right kind and make no sense."""
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    merged = {**defaults, **{key: value for key, value in block.items() if value is not None}}
    found = [
        (key, f"must be more than 0, not {merged[key]}")
        for key in ("lease_s", "beat_s", "silence_s", "retry_s", "local_prefill_limit", "request_s")
        if not isinstance(merged[key], str) and merged[key] <= 0
    ]
    for key in ("min_tokens", "progress_us"):
        if isinstance(merged[key], int) and merged[key] < 0:
            found.append((key, f"must be 0 or more, not {merged[key]}"))
    if not found and merged["silence_s"] < 2 * merged["beat_s"]:
        found.append(("silence_s", f"must be twice beat_s ({merged['beat_s']}) or more: one late beat is no death"))
    if not found and merged["lease_s"] < 6:
        found.append(("lease_s", "must be at least 6: vLLM renews a lease six times in its length, in whole seconds"))
    return found
