"""The short form: one `model`, a `prefill` and a `decode` block, one `kv_transfer` block.

    model: {id: tiny, source: /models/tiny, engine: {max_model_len: 4096}}
    prefill: {replicas: 1, engine: {max_num_batched_tokens: 8192}}
    decode: {replicas: 2}
    kv_transfer: {fabric: auto}

`engine` in `model` is for both roles; a role's own `engine` goes over it.
"""

from __future__ import annotations

import copy
from typing import Any

from serve_app.config.check import Checker

ROLE = {
    "replicas": "deployment_config.num_replicas",
    "autoscaling": "deployment_config.autoscaling_config",
    "engine": "engine_kwargs",
    "accelerator_type": "accelerator_type",
    "accelerator": "accelerator_config",
    "placement": "placement_group_config",
    "runtime_env": "runtime_env",
}
"""Key of a role → where it stands in an LLMConfig."""

MODEL = {"model_id": "id", "model_source": "source", "tokenizer_source": "tokenizer"}
"""Key of a model_loading_config → key of `model`."""


def is_short(data: dict[str, Any]) -> bool:
    """True for the short form. Ray's own has prefill_config and decode_config."""
    return bool({"model", "prefill", "decode"} & set(data)) and not {"prefill_config", "decode_config"} & set(data)


def check(data: dict[str, Any], checker: Checker) -> None:
    """Adds the problems of the short form's own keys; what they expand to is checked after."""
    checker.section(data, "short_form", "")


def written(path: str, data: dict[str, Any]) -> str:
    """The short form's path of what stands at `path` in Ray's schema."""
    config, _, rest = path.partition(".")
    role = config.removesuffix("_config")
    if role not in ("prefill", "decode") or role == config:
        return path
    if rest.startswith("model_loading_config."):
        name = rest.partition(".")[2]
        return f"model.{MODEL.get(name, name)}"
    for key, target in ROLE.items():
        if rest == target or rest.startswith(f"{target}."):
            below = rest[len(target) :]
            own = (data.get(role) or {}).get(key) or {}
            shared = key == "engine" and below[1:].partition(".")[0] not in own
            return f"{'model' if shared else role}.{key}{below}"
    return f"{role}.{rest}" if rest else role


def expand(data: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """In Ray's schema, and the origin of what stands elsewhere now."""
    model = data["model"]
    origin: dict[str, str] = {}
    whole: dict[str, Any] = {}
    for role in ("prefill", "decode"):
        block = data.get(role) or {}
        config: dict[str, Any] = {"model_loading_config": {"model_id": model["id"]}}
        for key, target in (("source", "model_source"), ("tokenizer", "tokenizer_source")):
            if model.get(key) is not None:
                config["model_loading_config"][target] = model[key]
        config["engine_kwargs"] = copy.deepcopy(model.get("engine") or {})
        for key, value in block.items():
            if key == "engine":
                config["engine_kwargs"] |= value or {}
                continue
            at = config
            *parents, last = ROLE[key].split(".")
            for parent in parents:
                at = at.setdefault(parent, {})
            at[last] = value
        whole[f"{role}_config"] = config
    if data.get("ingress"):
        whole["ingress_deployment_config"] = data["ingress"]
    for block in ("kv_transfer", "endpoint"):
        if data.get(block):
            whole[block] = data[block]
    return whole, origin
