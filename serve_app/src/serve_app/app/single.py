"""`serve_app:build_app`: one node, Ray's schema."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from serve_app.access.settings import Endpoint
from serve_app.app import defaults, load
from serve_app.app.defaults import WHY
from serve_app.config.check import Checker
from serve_app.config.document import unshared
from serve_app.config.origin import Filler
from serve_app.errors import ConfigError


@dataclass(frozen=True)
class Resolved:
    """args: for Ray's LLMServingArgs. endpoint: ours. origin: path → where its value comes from, if not given."""

    args: dict[str, Any]
    endpoint: Endpoint
    origin: dict[str, str]


def build(args: dict[str, Any]) -> Any:
    """A Serve application. Raises ConfigError with every problem found."""
    resolved = resolve(args)
    from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
    from ray.llm._internal.serve.core.server.builder import build_llm_deployment
    from ray.llm._internal.serve.core.server.llm_server import LLMServer
    from ray.llm._internal.serve.serving_patterns.data_parallel.dp_server import DPServer

    from serve_app.app import ingress
    from serve_app.engine.server import DPOneServer, Server, ServerMixin

    serving = LLMServingArgs.model_validate(resolved.args)
    engines = []
    for config in serving.llm_configs:
        many = (config.engine_kwargs.get("data_parallel_size") or 1) > 1
        cls: Any = DPOneServer if many else Server
        if config.server_cls is not None:  # theirs, with what the ingress needs of an engine replica
            cls = type(config.server_cls.__name__, (ServerMixin, config.server_cls), {})
        prefix = f"{(DPServer if many else LLMServer).__name__}:"  # the names that Ray gives, for people's dashboards
        engines.append((config, build_llm_deployment(config, name_prefix=prefix, deployment_cls=cls)))
    return ingress.bind(engines, serving, resolved.endpoint)


def resolve(args: dict[str, Any]) -> Resolved:
    """Checked arguments with defaults filled in; `args` is left as it is. Raises ConfigError."""
    whole = unshared(args)
    single = isinstance(whole, dict) and "model_loading_config" in whole
    checker = Checker()
    if single:
        checker.one_model(whole, "")
    else:
        checker.section(whole, "llm_serving_args", "")
    if checker.problems:
        raise ConfigError(checker.problems)
    block = whole.pop("endpoint", None) or {}
    if single:
        whole = {"llm_configs": [whole]}
    origin: dict[str, str] = {}
    given = [config for config in whole["llm_configs"] if isinstance(config, dict)]
    endpoint = Endpoint.of(block)
    for index, config in enumerate(whole["llm_configs"]):
        if isinstance(config, dict):
            filler = Filler(config, f"llm_configs[{index}]", origin)
            before = copy.deepcopy(config)
            defaults.fill_engine(config)
            filler.note_changes(before, "derived from the hardware", WHY)
            load.fill_engine(filler)
            load.fill_patience(filler, endpoint.request_s)
            load.fill_tracing(filler)
            load.fill_answers(filler, endpoint.max_tokens)
    if len(given) == len(whole["llm_configs"]):  # a path to another file says nothing before it is read
        endpoint = Endpoint.of(block, max_in_flight=load.in_flight(given))
    filler = Filler(whole.setdefault("ingress_deployment_config", {}), "ingress_deployment_config", origin)
    load.fill_ingress(filler, endpoint.max_in_flight or load.INGRESS_ONGOING // 4)
    load.fill_patience(filler, endpoint.request_s, "")
    return Resolved(whole, endpoint, origin)
