"""Combinations of prefill and decode: what vLLM 0.29 refuses is refused here, before an engine is loaded."""

from __future__ import annotations

from typing import Any

from serve_app.config import known_keys
from serve_app.errors import Problem

ADAPTERS_SINCE = (2, 59)
"""The Ray whose prefill/decode is known to load a request's LoRA adapter on prefill, too."""


def installed_ray() -> tuple[int, ...]:
    """Version of the Ray beside us, as far as it is numbers; empty without one."""
    return tuple(int(part) for part in known_keys.installed().get("ray", "").split(".") if part.isdigit())


def judge(
    prefill: dict[str, Any], decode: dict[str, Any], ray: tuple[int, ...] | None = None
) -> tuple[list[Problem], list[str]]:
    """Problems that stop, and warnings that don't. ray: its version; the installed one's when not given."""
    ray = installed_ray() if ray is None else ray
    problems: list[Problem] = []
    warnings: list[str] = []
    ours, theirs = decode.get("engine_kwargs", {}), prefill.get("engine_kwargs", {})
    for key, name in (("dtype", "dtype"), ("kv_cache_dtype", "KV cache dtype")):
        if (ours.get(key) or "auto") != (theirs.get(key) or "auto"):
            # In vLLM's compatibility hash: the handshake refuses it, at the first request.
            problems.append(Problem(f"decode_config.engine_kwargs.{key}", f"is {ours.get(key) or 'auto'!r} and "
                                    f"prefill's is {theirs.get(key) or 'auto'!r}", f"one {name} for both"))  # fmt: skip
    if (ours.get("pipeline_parallel_size") or 1) > 1:
        problems.append(Problem("decode_config.engine_kwargs.pipeline_parallel_size",
                                "decode can't be pipeline parallel with NIXL in vLLM 0.29",
                                "use tensor parallel"))  # fmt: skip
    for role, engine in (("prefill", theirs), ("decode", ours)):
        connector = engine.get("kv_transfer_config", {})
        wanted = {"prefill": ("kv_producer", "kv_both"), "decode": ("kv_consumer", "kv_both")}[role]
        if connector.get("kv_connector") == "NixlConnector" and connector.get("kv_role") not in wanted:
            problems.append(Problem(f"{role}_config.engine_kwargs.kv_transfer_config.kv_role",
                                    f"{connector.get('kv_role')!r} is the other side's",
                                    f"use {wanted[0]}"))  # fmt: skip
    sources = [config.get("model_loading_config", {}).get("model_source") for config in (prefill, decode)]
    if sources[0] != sources[1]:
        warnings.append(f"prefill loads {sources[0]!r} and decode {sources[1]!r}: they must hold the same weights")
    if (ours.get("block_size"), theirs.get("block_size")) != (ours.get("block_size"),) * 2:
        warnings.append("different block sizes: every transfer is re-ordered on decode")
    if (theirs.get("tensor_parallel_size") or 1) > (ours.get("tensor_parallel_size") or 1):
        warnings.append("prefill has more tensor parallel ranks than decode: vLLM supports that with exceptions (MLA)")
    if ray and ray < ADAPTERS_SINCE and (decode.get("lora_config") or prefill.get("lora_config")):
        problems.append(Problem("decode_config.lora_config", f"prefill/decode of Ray {ray[0]}.{ray[1]} does not tell "
                                "prefill which adapter a request is for: its KV would be the base model's",
                                "use release 2.60, or one node (build_app)"))  # fmt: skip
    elif decode.get("lora_config") != prefill.get("lora_config"):
        problems.append(Problem("decode_config.lora_config", "differs from prefill's", "one LoRA path for both"))
    return problems, warnings
