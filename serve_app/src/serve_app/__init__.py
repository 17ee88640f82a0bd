"""Builds and runs Ray Serve LLM applications.

The names here are Serve import paths (`import_path: serve_app:build_app`). They import Ray only when called, so
that `import serve_app` and the command line stay fast.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def build_app(args: dict[str, Any]) -> Any:
    """One node: a Ray Serve application with an OpenAI endpoint.

    args: Ray's own schema for `ray.serve.llm:build_openai_app` (`llm_configs`, `ingress_deployment_config`, ...), or
    a single LLMConfig (`model_loading_config`, ...).
    Raises serve_app.errors.ConfigError with every problem found.
    """
    from serve_app.app.single import build

    return build(args)


def build_pd_app(args: dict[str, Any]) -> Any:
    """Prefill on one node, decode on another, behind one OpenAI endpoint.

    args: Ray's own schema for `ray.serve.llm:build_pd_openai_app` (`prefill_config`, `decode_config`, ...) or the short
    form (`model`, `prefill`, `decode`), both with an optional `kv_transfer` block (serve_app.pd.settings).
    Raises serve_app.errors.ConfigError with every problem found.
    """
    from serve_app.pd.build import build

    return build(args)
