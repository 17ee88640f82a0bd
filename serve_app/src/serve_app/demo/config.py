"""The demo's configuration: one tiny model, on whatever this machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from serve_app import hardware

MODEL_ID = "demo"
CONTEXT = 2048


def config(model: Path, kind: hardware.Kind) -> dict[str, Any]:
    """A Serve configuration for the model folder `model`."""
    llm: dict[str, Any] = {
        "model_loading_config": {"model_id": MODEL_ID, "model_source": str(model)},
        "deployment_config": {"num_replicas": 1},
        "engine_kwargs": {
            "max_model_len": CONTEXT,
            "dtype": "float32",  # greedy answers are then the same on every machine
            "enforce_eager": True,  # compiling would take longer than all the rest of the start
            "max_num_seqs": 16,
            "enable_auto_tool_choice": True,
            "tool_call_parser": "hermes",
        },
    }
    if kind == "cpu":
        llm["accelerator_config"] = {"kind": "cpu"}
        llm["runtime_env"] = {
            "env_vars": {
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1",  # more threads only wait for each other on a model this small
                "HF_HUB_OFFLINE": "1",
                "TRANSFORMERS_OFFLINE": "1",
            }
        }
    else:
        llm["engine_kwargs"]["gpu_memory_utilization"] = 0.3
        llm["runtime_env"] = {"env_vars": {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}}
    application = {
        "name": "default",
        "route_prefix": "/",
        "import_path": "serve_app:build_app",
        "args": {"llm_configs": [llm], "ingress_deployment_config": {"num_replicas": 1}},
    }
    return {"applications": [application]}
