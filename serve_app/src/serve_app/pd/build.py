"""`serve_app:build_pd_app`: the graph of ingress, decode and prefill."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from serve_app.pd import alone, placement
from serve_app.pd.resolve import Resolved, resolve

logger = logging.getLogger("ray.serve")


def build(args: dict[str, Any]) -> Any:
    """A Serve application. Raises ConfigError with every problem found."""
    resolved = resolve(args)
    for warning in resolved.warnings:
        logger.warning("%s", warning)
    args = placement.apply(resolved.args, placement.nodes_of_ray(), resolved.settings.allow_same_node)
    return graph(dataclasses.replace(resolved, args=alone.bind(args)))


def graph(resolved: Resolved) -> Any:
    """Ray's build_pd_openai_app hard-codes its classes; this is its graph with ours."""
    from ray.llm._internal.serve.core.server.builder import build_llm_deployment
    from ray.llm._internal.serve.serving_patterns.data_parallel.builder import build_dp_deployment
    from ray.llm._internal.serve.serving_patterns.prefill_decode.builder import PDServingArgs

    from serve_app.app import ingress
    from serve_app.pd import decode, prefill

    serving = PDServingArgs.model_validate(resolved.args)
    configs = (serving.prefill_config, serving.decode_config)
    parallel = [(config.engine_kwargs.get("data_parallel_size") or 1) > 1 for config in configs]
    builders = [build_dp_deployment if many else build_llm_deployment for many in parallel]
    prefill_server = builders[0](
        serving.prefill_config, name_prefix="Prefill:",
        deployment_cls=prefill.DPPrefillServer if parallel[0] else prefill.PrefillServer,
    )  # fmt: skip
    decode_server = builders[1](
        serving.decode_config, name_prefix="Decode:",
        deployment_cls=decode.DPDecodeServer if parallel[1] else decode.DecodeServer,
        bind_kwargs={"prefill_server": prefill_server, "settings": resolved.settings},
    )  # fmt: skip
    return ingress.bind([(serving.decode_config, decode_server)], serving, resolved.endpoint)
