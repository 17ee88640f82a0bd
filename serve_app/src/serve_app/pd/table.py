"""Combinations of prefill and decode: what vLLM 0.29 refuses is refused here, before an engine is loaded."""

from __future__ import annotations

from typing import Any

from serve_app.errors import Problem


def judge(prefill: dict[str, Any], decode: dict[str, Any]) -> tuple[list[Problem], list[str]]:
    """Problems that stop, and warnings that don't."""
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
    if decode.get("lora_config") != prefill.get("lora_config"):
        problems.append(Problem("decode_config.lora_config", "differs from prefill's", "one LoRA path for both"))
    return problems, warnings
