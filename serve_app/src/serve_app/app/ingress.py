"""The ingress: Ray's routes on our class and our FastAPI application, and how it is bound to the engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from serve_app.access.settings import Endpoint


def bind(engines: list[tuple[Any, Any]], serving: Any, endpoint: Endpoint) -> Any:
    """The application's top. engines: (LLMConfig, its bound deployment), one a model. serving: Ray's serving args."""
    from ray import serve
    from ray.llm._internal.common.dict_utils import maybe_apply_llm_deployment_config_defaults
    from ray.llm._internal.serve.core.configs.openai_api_models import to_model_metadata
    from ray.llm._internal.serve.core.ingress.ingress import DEFAULT_ENDPOINTS, OpenAiIngress, make_fastapi_ingress

    from serve_app.app.routes import Ingress
    from serve_app.openai import application

    given = serving.ingress_cls_config
    own = given.ingress_cls is OpenAiIngress
    cls = Ingress if own else given.ingress_cls
    defaults = cls.get_deployment_options([config for config, _ in engines])
    options = maybe_apply_llm_deployment_config_defaults(defaults, serving.ingress_deployment_config)
    endpoints: dict[str, Callable[[Any], Any]] = dict(DEFAULT_ENDPOINTS)
    extra = dict(given.ingress_extra_kwargs or {})
    if own:
        endpoints["health"] = lambda app: app.get("/health")
        endpoints["metrics"] = lambda app: app.get("/metrics")
        endpoints["ready"] = lambda app: app.get("/ready")
        extra["endpoint"] = endpoint
    app = application.make(endpoint)
    return serve.deployment(make_fastapi_ingress(cls, endpoint_map=endpoints, app=app), **options).bind(
        llm_deployments={config.model_id: server for config, server in engines},
        model_cards={config.model_id: to_model_metadata(config.model_id, config) for config, _ in engines},
        lora_paths={
            config.model_id: config.lora_config.dynamic_lora_loading_path
            for config, _ in engines
            if config.lora_config is not None
        },
        **extra,
    )
