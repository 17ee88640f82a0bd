"""Writes down which keys the installed Ray and vLLM know: `python -m serve_app.config.collect known/….json`.

Importing vLLM takes ten seconds and more; a misspelt key should be refused at once. So the keys are written into a
file once per release, and a test compares it with what is installed. The checks use it only where the installed
versions are the ones it was made from.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any

Fields = dict[str, dict[str, Any]]


def kinds_of(annotation: Any) -> tuple[set[str], set[str]]:
    """The kinds of YAML value an annotation takes, and its choices; `any` when that can't be said."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds: set[str] = set()
        choices: set[str] = set()
        for part in typing.get_args(annotation):
            more, options = kinds_of(part)
            kinds |= more
            choices |= options
        return kinds, choices
    if origin is typing.Annotated:
        return kinds_of(typing.get_args(annotation)[0])
    if origin is typing.Literal:
        listed = typing.get_args(annotation)
        if all(isinstance(option, str) for option in listed):
            return {"choice"}, set(listed)
        return {"any"}, set()
    plain = {int: "int", float: "float", bool: "bool", str: "str", dict: "dict", type(None): "null"}
    if annotation in plain:
        return {plain[annotation]}, set()
    if origin in (list, tuple, set):
        return {"list"}, set()
    if origin is dict:
        return {"dict"}, set()
    return {"any"}, set()


def describe(annotations: dict[str, Any]) -> Fields:
    """Name → {"kinds": [...], "choices": [...]}, choices only where nothing else is taken."""
    found: Fields = {}
    for name, annotation in annotations.items():
        kinds, choices = kinds_of(annotation)
        entry: dict[str, Any] = {"kinds": ["any"] if "any" in kinds else sorted(kinds)}
        if choices and not kinds & {"any", "str"}:
            entry["choices"] = sorted(choices)
        found[name] = entry
    return dict(sorted(found.items()))


def of_dataclass(cls: Any) -> Fields:
    """Fields of a dataclass; an annotation that names what is not imported at run time counts as `any`."""
    return describe({field.name: _resolved(cls, field) for field in dataclasses.fields(cls)})


def _resolved(cls: Any, field: dataclasses.Field[Any]) -> Any:
    if not isinstance(field.type, str):
        return field.type
    for base in cls.__mro__:
        if field.name in base.__dict__.get("__annotations__", {}):
            try:
                return eval(field.type, vars(sys.modules[base.__module__]))  # noqa: S307 - the library's own source
            except (NameError, TypeError):
                return Any
    return Any


def of_model(cls: Any) -> Fields:
    """Fields of a pydantic model, by alias where there is one, or of a dataclass."""
    if dataclasses.is_dataclass(cls):
        return of_dataclass(cls)
    return describe({field.alias or name: field.annotation for name, field in cls.model_fields.items()})


def collect() -> dict[str, Any]:
    """Everything at once. Imports Ray and vLLM."""
    from ray.llm._internal.serve.core.configs import llm_config
    from ray.llm._internal.serve.core.ingress.builder import IngressClsConfig, LLMServingArgs
    from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs
    from ray.runtime_env import RuntimeEnv
    from ray.serve import schema
    from ray.serve._private.config import DeploymentConfig
    from ray.serve.config import AutoscalingConfig
    from ray.serve.schema import RayActorOptionsSchema
    from vllm.config.kv_transfer import KVTransferConfig
    from vllm.engine.arg_utils import AsyncEngineArgs

    try:
        from vllm.entrypoints.launchers.cli_args import FrontendArgs
    except ImportError:  # vLLM 0.26
        from vllm.entrypoints.openai.cli_args import FrontendArgs

    deployment = {**of_model(schema.DeploymentSchema), **of_model(DeploymentConfig)}
    for refused in ("placement_group_bundles", "placement_group_strategy", "user_configured_option_names"):
        deployment.pop(refused, None)  # placement_group_config says the first two; the last is Ray's own
    deployment["num_replicas"] = {"kinds": ["choice", "int", "null"], "choices": ["auto"]}
    runtime_env = dict.fromkeys([*RuntimeEnv.known_fields, "env_vars"], {"kinds": ["any"]})
    runtime_env["env_vars"] = {"kinds": ["dict"]}
    sections = {
        "serve": of_model(schema.ServeDeploySchema),
        "application": of_model(schema.ServeApplicationSchema),
        "http_options": {**of_model(schema.HTTPOptionsSchema), "location": {"kinds": ["str"]}},
        "llm_serving_args": of_model(LLMServingArgs),
        "pd_serving_args": of_model(PDServingArgs),
        "ingress_cls_config": of_model(IngressClsConfig),
        "llm_config": of_model(llm_config.LLMConfig),
        "model_loading_config": of_model(llm_config.ModelLoadingConfig),
        "cloud_mirror_config": of_model(llm_config.CloudMirrorConfig),
        "lora_config": of_model(llm_config.LoraConfig),
        "callback_config": of_model(llm_config.CallbackConfig),
        "accelerator_config": describe({"kind": str, "topology": str | None}),
        "placement_group_config": describe({"bundle_per_worker": dict, "bundles": list, "strategy": str}),
        "deployment_config": deployment,
        "autoscaling_config": of_model(AutoscalingConfig),
        "ray_actor_options": of_model(RayActorOptionsSchema),
        "runtime_env": dict(sorted(runtime_env.items())),
        "engine_kwargs": {**of_dataclass(AsyncEngineArgs), **of_dataclass(FrontendArgs)},
        "kv_transfer_config": describe(
            {name: hint for name, hint in typing.get_type_hints(KVTransferConfig).items() if not name.startswith("_")}
        ),
    }
    return {
        "versions": {name: importlib.metadata.version(name).partition("+")[0] for name in ("ray", "vllm")},
        "sections": sections,
    }


if __name__ == "__main__":
    # Not to stdout: vLLM's logger writes there while it is imported.
    Path(sys.argv[1]).write_text(json.dumps(collect(), separators=(",", ":"), sort_keys=True) + "\n")
