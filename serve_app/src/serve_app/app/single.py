"""`serve_app:build_app`: one node, Ray's schema."""

from __future__ import annotations

import copy
from typing import Any

from serve_app.app import defaults
from serve_app.app.defaults import WHY
from serve_app.config.check import Checker
from serve_app.config.document import unshared
from serve_app.config.origin import Filler
from serve_app.errors import ConfigError


def build(args: dict[str, Any]) -> Any:
    """A Serve application. Raises ConfigError with every problem found."""
    resolved = resolve(args)
    from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
    from ray.llm._internal.serve.core.server.builder import build_llm_deployment
    from ray.llm._internal.serve.core.server.llm_server import LLMServer
    from ray.llm._internal.serve.serving_patterns.data_parallel.dp_server import DPServer

    from serve_app.app import ingress
    from serve_app.engine.server import DPOneServer, Server, ServerMixin

    serving = LLMServingArgs.model_validate(resolved)
    engines = []
    for config in serving.llm_configs:
        many = (config.engine_kwargs.get("data_parallel_size") or 1) > 1
        cls: Any = DPOneServer if many else Server
        if config.server_cls is not None:  # theirs, with what the ingress needs of an engine replica
            cls = type(config.server_cls.__name__, (ServerMixin, config.server_cls), {})
        prefix = f"{(DPServer if many else LLMServer).__name__}:"  # the names that Ray gives, for people's dashboards
        engines.append((config, build_llm_deployment(config, name_prefix=prefix, deployment_cls=cls)))
    return ingress.bind(engines, serving, ingress.Limits())


def resolve(args: dict[str, Any]) -> dict[str, Any]:
    """Checked arguments with defaults filled in; `args` is left as it is. Raises ConfigError."""
    return resolve_with_origin(args)[0]


def resolve_with_origin(args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The same, and path → where a value comes from, for those that were not given."""
    whole = unshared(args)
    single = isinstance(whole, dict) and "model_loading_config" in whole
    checker = Checker()
    checker.section(whole, "llm_config" if single else "llm_serving_args", "")
    if checker.problems:
        raise ConfigError(checker.problems)
    if single:
        whole = {"llm_configs": [whole]}
    origin: dict[str, str] = {}
    for index, config in enumerate(whole["llm_configs"]):
        if isinstance(config, dict):
            filler = Filler(config, f"llm_configs[{index}]", origin)
            before = copy.deepcopy(config)
            defaults.fill_engine(config)
            filler.note_changes(before, "derived from the hardware", WHY)
    return whole, origin
