"""How many CPUs Ray must count so that a configuration can be placed on one machine."""

from __future__ import annotations

import os
from typing import Any

SPARE = 4
"""For Serve's own actors, and builders that start tasks."""


def logical_cpus(serve: dict[str, Any]) -> int:
    """At least the machine's cores, and room for every replica that the configuration can ask for.

    Ray's CPUs are a promise for placement, not a limit: nothing is pinned or throttled by them.
    """
    wanted = sum(_of_application(application.get("args") or {}) for application in serve["applications"])
    return max(os.cpu_count() or 1, int(wanted + 0.999) + SPARE)


def _of_application(args: dict[str, Any]) -> float:
    configs = [*args.get("llm_configs", []), args.get("prefill_config"), args.get("decode_config")]
    configs += [_role(args, role) for role in ("prefill", "decode")]
    if "model_loading_config" in args:
        configs.append(args)
    engines = sum(_of_engine(config) for config in configs if isinstance(config, dict))
    ingress = args.get("ingress_deployment_config") or {}
    return engines + _replicas(ingress) * _number((ingress.get("ray_actor_options") or {}).get("num_cpus"), 1.0)


def _role(args: dict[str, Any], role: str) -> dict[str, Any] | None:
    """A role of the short form, as much of it as counts here."""
    block = args.get(role)
    if not isinstance(block, dict):
        return None
    deployment = {"num_replicas": block.get("replicas"), "autoscaling_config": block.get("autoscaling")}
    engine = {**((args.get("model") or {}).get("engine") or {}), **(block.get("engine") or {})}
    return {"deployment_config": deployment, "engine_kwargs": engine, "placement_group_config": block.get("placement")}


def _of_engine(config: dict[str, Any]) -> float:
    deployment = config.get("deployment_config") or {}
    engine = config.get("engine_kwargs") or {}
    devices = 1.0
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        devices *= _number(engine.get(name), 1.0)
    placement = config.get("placement_group_config") or {}
    bundles = placement.get("bundles") or [placement.get("bundle_per_worker") or {"CPU": 1}] * int(devices)
    workers = sum(_number(bundle.get("CPU"), 0.0) for bundle in bundles if isinstance(bundle, dict))
    actor = _number((deployment.get("ray_actor_options") or {}).get("num_cpus"), 1.0)
    return _replicas(deployment) * (workers + actor)


def _replicas(deployment: dict[str, Any]) -> float:
    scaling = deployment.get("autoscaling_config") or {}
    return max(_number(deployment.get("num_replicas"), 1.0), _number(scaling.get("max_replicas"), 1.0))


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default
