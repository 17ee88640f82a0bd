"""Checks a configuration against the known keys, before anything starts. All problems at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve_app.config import known_keys
from serve_app.config.document import join
from serve_app.config.known_keys import GONE, Known
from serve_app.config.values import fault
from serve_app.errors import ConfigError, Problem

SINGLE = ("serve_app:build_app", "ray.serve.llm:build_openai_app")
PREFILL_DECODE = ("serve_app:build_pd_app", "ray.serve.llm:build_pd_openai_app")

NESTED = {
    ("serve", "http_options"): "http_options",
    ("llm_config", "model_loading_config"): "model_loading_config",
    ("llm_config", "lora_config"): "lora_config",
    ("llm_config", "callback_config"): "callback_config",
    ("llm_config", "accelerator_config"): "accelerator_config",
    ("llm_config", "placement_group_config"): "placement_group_config",
    ("llm_config", "deployment_config"): "deployment_config",
    ("llm_config", "engine_kwargs"): "engine_kwargs",
    ("llm_config", "runtime_env"): "runtime_env",
    ("model_loading_config", "model_source"): "cloud_mirror_config",
    ("engine_kwargs", "kv_transfer_config"): "kv_transfer_config",
    ("deployment_config", "autoscaling_config"): "autoscaling_config",
    ("deployment_config", "ray_actor_options"): "ray_actor_options",
    ("llm_serving_args", "ingress_deployment_config"): "deployment_config",
    ("llm_serving_args", "ingress_cls_config"): "ingress_cls_config",
    ("pd_serving_args", "ingress_deployment_config"): "deployment_config",
    ("pd_serving_args", "ingress_cls_config"): "ingress_cls_config",
    ("pd_serving_args", "prefill_config"): "llm_config",
    ("pd_serving_args", "decode_config"): "llm_config",
    ("pd_serving_args", "kv_transfer"): "kv_transfer",
    ("pd_serving_args", "endpoint"): "endpoint",
    ("llm_serving_args", "endpoint"): "endpoint",
    ("short_form", "model"): "short_model",
    ("short_form", "prefill"): "short_role",
    ("short_form", "decode"): "short_role",
    ("short_form", "kv_transfer"): "kv_transfer",
    ("short_form", "endpoint"): "endpoint",
    ("short_form", "ingress"): "deployment_config",
    ("short_model", "engine"): "engine_kwargs",
    ("short_role", "engine"): "engine_kwargs",
    ("short_role", "autoscaling"): "autoscaling_config",
    ("short_role", "accelerator"): "accelerator_config",
    ("short_role", "placement"): "placement_group_config",
    ("short_role", "runtime_env"): "runtime_env",
}
"""(section, key) → the section that the value is, when it is a mapping."""

REQUIRED = {
    "llm_config": ("model_loading_config",),
    "model_loading_config": ("model_id",),
    "llm_serving_args": ("llm_configs",),
    "pd_serving_args": ("prefill_config", "decode_config"),
    "short_form": ("model", "prefill", "decode"),
    "short_model": ("id",),
    "application": ("import_path",),
    "serve": ("applications",),
}


class Checker:
    """Gathers problems. `known` is the table to check against; where it is not exact, unknown keys are let through."""

    def __init__(self, known: Known | None = None) -> None:
        self.known = known or known_keys.load()
        self.problems: list[Problem] = []

    def add(self, path: str, what: str, remedy: str | None = None) -> None:
        """One more problem."""
        self.problems.append(Problem(path, what, remedy))

    def section(self, data: Any, section: str, path: str) -> None:
        """A mapping whose keys are those of `section`, and everything in it."""
        if not isinstance(data, dict):
            self.add(path, "must be a mapping")
            return
        keys = self.known.keys(section)
        for name, value in data.items():
            at = join(path, name)
            if name not in keys or (section == "engine_kwargs" and name in ("model", "served_model_name")):
                self._unknown(str(name), at, section, keys)
                continue
            wrong = fault(value, keys[name]["kinds"], keys[name].get("choices"))
            if wrong:
                self.add(at, *wrong)
            elif isinstance(value, dict) and (section, name) in NESTED:
                self.section(value, NESTED[section, name], at)
        for name in REQUIRED.get(section, ()):
            if data.get(name) is None:
                self.add(path, f"{name} is missing")
        special: Callable[[dict[str, Any], str], None] | None = getattr(self, f"_in_{section}", None)
        if special:
            special(data, path)

    def one_model(self, data: dict[str, Any], path: str) -> None:
        """A single LLMConfig, with our block beside its keys."""
        self.section({key: value for key, value in data.items() if key != "endpoint"}, "llm_config", path)
        if "endpoint" in data:
            self.section(data["endpoint"], "endpoint", join(path, "endpoint"))

    def _unknown(self, name: str, at: str, section: str, keys: dict[str, Any]) -> None:
        if name in GONE and name not in ("model", "served_model_name"):
            self.add(at, "unknown key", GONE[name])
        elif section == "engine_kwargs" and name in ("model", "served_model_name"):
            self.add(at, "not allowed here", GONE[name])
        elif self.known.exact:
            self.add(at, "unknown key", known_keys.remedy(name, keys))

    def _in_serve(self, data: dict[str, Any], path: str) -> None:
        applications = data.get("applications")
        if not isinstance(applications, list):
            return
        if not applications:
            self.add(join(path, "applications"), "is empty")
        names: dict[str, str] = {}
        for index, application in enumerate(applications):
            at = join(join(path, "applications"), index)
            self.section(application, "application", at)
            if isinstance(application, dict):
                for key, default in (("name", "default"), ("route_prefix", "/")):
                    value = str(application.get(key, default))
                    if value in names:
                        self.add(join(at, key), f"{value!r} is taken by {names[value]}", "give each its own")
                    names.setdefault(value, at)

    def _in_application(self, data: dict[str, Any], path: str) -> None:
        target, args = data.get("import_path"), data.get("args", {})
        if not isinstance(target, str) or not isinstance(args, dict):
            return
        if target.startswith(("serve_app:", "ray.serve.llm:")) and target not in SINGLE + PREFILL_DECODE:
            ours = [*SINGLE, *PREFILL_DECODE, "ray.serve.llm:build_dp_openai_app"]
            if target not in ours:
                self.add(join(path, "import_path"), f"there is no {target}", known_keys.remedy(target, ours))
        elif target in SINGLE and "model_loading_config" in args:
            self.one_model(args, join(path, "args"))
        elif target in SINGLE:
            self.section(args, "llm_serving_args", join(path, "args"))
        elif target in PREFILL_DECODE:
            short = target == PREFILL_DECODE[0] and "model" in args
            self.section(args, "short_form" if short else "pd_serving_args", join(path, "args"))

    def _in_llm_serving_args(self, data: dict[str, Any], path: str) -> None:
        configs = data.get("llm_configs")
        if not isinstance(configs, list):
            return
        at = join(path, "llm_configs")
        if not configs:
            self.add(at, "is empty")
        seen: dict[Any, str] = {}
        for index, config in enumerate(configs):
            if isinstance(config, str):
                continue  # a path to another YAML file: read where the application is built
            here = join(at, index)
            self.section(config, "llm_config", here)
            loading = config.get("model_loading_config") if isinstance(config, dict) else None
            model_id = loading.get("model_id") if isinstance(loading, dict) else None
            if model_id is not None and model_id in seen:
                self.add(here, f"model_id {model_id!r} is taken by {seen[model_id]}", "give each model its own")
            seen.setdefault(model_id, here)

    def _in_endpoint(self, data: dict[str, Any], path: str) -> None:
        from serve_app.access import settings

        if any(problem.path.startswith(f"{path}.") for problem in self.problems):
            return
        for key, what, remedy in settings.faults(data):
            self.add(join(path, key), what, remedy)
        keys_file = data.get("keys_file")
        if keys_file and Path(keys_file).exists():
            self._keys(Path(keys_file), join(path, "keys_file"))

    def _keys(self, file: Path, path: str) -> None:
        """A keys file that is here is read; one that is not may be on the node where the ingress will run."""
        from serve_app.access import keys

        try:
            keys.read(file)
        except ConfigError as error:
            self.problems += [Problem(path, f"{file}: {problem}") for problem in error.problems]

    def _in_model_loading_config(self, data: dict[str, Any], path: str) -> None:
        if data.get("model_id") == "":
            self.add(join(path, "model_id"), "is empty", "requests name the model by it")

    def _in_short_model(self, data: dict[str, Any], path: str) -> None:
        if data.get("id") == "":
            self.add(join(path, "id"), "is empty", "requests name the model by it")

    def _in_autoscaling_config(self, data: dict[str, Any], path: str) -> None:
        least, most = data.get("min_replicas"), data.get("max_replicas")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            self.add(join(path, "max_replicas"), f"is {most}, less than min_replicas, which is {least}")

    def _in_llm_config(self, data: dict[str, Any], path: str) -> None:
        deployment = data.get("deployment_config")
        if isinstance(deployment, dict):
            replicas, scaling = deployment.get("num_replicas"), deployment.get("autoscaling_config")
            if isinstance(replicas, int) and scaling:
                self.add(join(path, "deployment_config"), "num_replicas and autoscaling_config exclude each other",
                         "keep one of them")  # fmt: skip
            elif isinstance(replicas, int) and replicas < 1:
                self.add(join(path, "deployment_config.num_replicas"), f"must be at least 1, not {replicas}")
        engine = data.get("engine_kwargs")
        if isinstance(engine, dict):
            for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "block_size",
                         "max_num_seqs"):  # fmt: skip
                value = engine.get(name)
                if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                    self.add(join(path, f"engine_kwargs.{name}"), f"must be at least 1, not {value}")
        accelerator = data.get("accelerator_config")
        if isinstance(accelerator, dict) and accelerator.get("kind") not in (None, "cpu", "gpu", "tpu"):
            wrong = fault(accelerator["kind"], ["choice"], ["cpu", "gpu", "tpu"])
            if wrong:
                self.add(join(path, "accelerator_config.kind"), *wrong)
