"""What people forget to say about an engine, filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serve_app import hardware

CPU_ENVIRONMENT = {
    # Without it vLLM takes half of the memory for the KV cache, for each engine on the node.
    "VLLM_CPU_KVCACHE_SPACE": "4",
    # vLLM's own binding puts every engine of a node on the same cores.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}

LOCAL_MODEL = "serve_app.app.local_model.LocalModel"
WHY = {
    "callback_config": "derived from model_source: a folder needs no download step",
    "log_engine_metrics": "default: vLLM's own metrics, for GET /metrics",
}
"""Key → why it is filled in, where that is not the hardware."""


def fill_engine(config: dict[str, Any], kind: hardware.Kind | None = None) -> None:
    """Completes one LLMConfig in place. kind: the hardware, asked of this machine when it is not given.

    Only where torch can't use a GPU at all is a configuration without any word on hardware taken to mean the CPU:
    Ray would wait for a GPU for ever.
    """
    source = (config.get("model_loading_config") or {}).get("model_source")
    if isinstance(source, str) and Path(source).is_absolute():
        config.setdefault("callback_config", {"callback_class": LOCAL_MODEL})
    # vLLM's own metrics, which GET /metrics collects; Ray's wrapper would put them into Ray's agent instead.
    config.setdefault("log_engine_metrics", False)
    if _on_cpu(config, hardware.cpu_build() if kind is None else kind == "cpu"):
        config["accelerator_config"] = {"kind": "cpu"}
    if (config.get("accelerator_config") or {}).get("kind") == "cpu":
        runtime_env = dict(config.get("runtime_env") or {})
        runtime_env["env_vars"] = {**CPU_ENVIRONMENT, **(runtime_env.get("env_vars") or {})}
        config["runtime_env"] = runtime_env


def _on_cpu(config: dict[str, Any], no_gpu_here: bool) -> bool:
    """Ray's own inference, spelt out; and the CPU where nothing is said and there is no GPU to be had."""
    said = (config.get("accelerator_config") or {}).get("kind")
    if said is not None or config.get("accelerator_type"):
        return said == "cpu"
    placement = config.get("placement_group_config") or {}
    bundles = [*(placement.get("bundles") or []), placement.get("bundle_per_worker")]
    given = [bundle for bundle in bundles if isinstance(bundle, dict)]
    if given:
        return not any(bundle.get("GPU") or bundle.get("TPU") for bundle in given)
    return no_gpu_here
