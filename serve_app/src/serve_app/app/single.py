"""`serve_app:build_app`: one node, Ray's schema."""

from __future__ import annotations

import copy
from typing import Any

from serve_app.app import defaults
from serve_app.config.check import Checker
from serve_app.errors import ConfigError


def build(args: dict[str, Any]) -> Any:
    """A Serve application. Raises ConfigError with every problem found."""
    resolved = resolve(args)
    from ray.serve.llm import build_openai_app

    return build_openai_app(resolved)


def resolve(args: dict[str, Any]) -> dict[str, Any]:
    """Checked arguments with defaults filled in; `args` is left as it is."""
    whole = copy.deepcopy(args)
    single = isinstance(whole, dict) and "model_loading_config" in whole
    checker = Checker()
    checker.section(whole, "llm_config" if single else "llm_serving_args", "")
    if checker.problems:
        raise ConfigError(checker.problems)
    if single:
        whole = {"llm_configs": [whole]}
    for config in whole["llm_configs"]:
        if isinstance(config, dict):
            defaults.fill_engine(config)
    return whole
