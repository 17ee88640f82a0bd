"""What is overridden or read of Ray's and vLLM's insides still looks as it did: a new release fails here, not at night.

The signatures are those of Ray 2.60.0 and vLLM 0.29.0.
"""

from __future__ import annotations

import inspect
import json
from importlib import resources
from typing import Any

import pytest
from ray.llm._internal.serve.core.ingress.ingress import OpenAiIngress, make_fastapi_ingress
from ray.llm._internal.serve.core.server.builder import build_llm_deployment
from ray.llm._internal.serve.core.server.llm_server import LLMServer
from ray.llm._internal.serve.serving_patterns.prefill_decode.pd_server import PDDecodeServer, PDOrchestratorMixin
from ray.serve._private.request_router.request_router import RequestRouter
from ray.serve._private.router import AsyncioRouter
from ray.serve.handle import DeploymentHandle
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_scheduler import NixlBaseConnectorScheduler
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_worker import NixlBaseConnectorWorker
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlBaseConnector
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.metadata import RemoteMeta
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import NixlPullConnectorWorker

SIGNATURES: list[tuple[Any, str, list[str]]] = [
    (LLMServer, "_init_shared", ["self", "llm_config", "engine_cls", "model_downloader"]),
    (LLMServer, "_start_engine", ["self"]),
    (PDDecodeServer, "__init__", ["self", "llm_config", "prefill_server", "engine_cls", "model_downloader"]),
    (PDOrchestratorMixin, "_pd_handle_request", ["self", "request", "raw_request_info"]),
    (PDOrchestratorMixin, "_maybe_prewarm", ["self"]),
    (OpenAiIngress, "_process_llm_request", ["self", "body", "call_method", "raw_request"]),
    (OpenAiIngress, "_get_response", ["self", "body", "call_method", "raw_request"]),
    (OpenAiIngress, "_get_model_id", ["self", "model"]),
    (OpenAiIngress, "_get_configured_serve_handle", ["self", "model_id"]),
    (DeploymentHandle, "broadcast", ["self", "method_name", "args", "kwargs"]),
    (AsyncioRouter, "running_replicas_populated", ["self"]),
    (NixlBaseConnector, "__init__", ["self", "vllm_config", "role", "kv_cache_config"]),
    (NixlPullConnectorScheduler, "get_num_new_matched_tokens", ["self", "request", "num_computed_tokens"]),
    (NixlBaseConnectorScheduler, "_stop_heartbeat", ["self", "req_id"]),
    (NixlBaseConnectorScheduler, "build_connector_meta", ["self", "scheduler_output"]),
    (NixlPullConnectorWorker, "start_load_kv", ["self", "metadata"]),
    (NixlPullConnectorWorker, "_read_blocks_for_req", ["self", "req_id", "meta"]),
    (NixlBaseConnectorWorker, "_pop_done_transfers", ["self", "transfers"]),
    (NixlBaseConnectorWorker, "_handle_failed_transfer", ["self", "req_id", "handle"]),
]


@pytest.mark.parametrize(("cls", "name", "parameters"), SIGNATURES, ids=lambda value: getattr(value, "__name__", None))
def test_signatures(cls: Any, name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(cls, name)).parameters) == parameters


def test_builders() -> None:
    assert {"llm_config", "name_prefix", "bind_kwargs", "deployment_cls"} <= set(
        inspect.signature(build_llm_deployment).parameters
    )
    assert list(inspect.signature(make_fastapi_ingress).parameters) == ["cls", "endpoint_map", "app"]


def test_the_routers_list_of_replicas() -> None:
    assert isinstance(inspect.getattr_static(RequestRouter, "curr_replicas"), property)
    assert isinstance(inspect.getattr_static(AsyncioRouter, "request_router"), property)


def test_the_expiry_reaches_the_workers() -> None:
    assert "blocks_expiry_time" in RemoteMeta.__dataclass_fields__


def test_the_known_keys_are_those_of_the_installed_release() -> None:
    from serve_app.config.collect import collect

    found = collect()
    name = f"ray-{found['versions']['ray']}-vllm-{found['versions']['vllm']}.json"
    table = json.loads(resources.files("serve_app.config").joinpath("known", name).read_text())
    assert table == json.loads(json.dumps(found)), "python -m serve_app.config.collect writes it anew"


def test_what_is_broken_upstream_still_is() -> None:
    """When one of these fails, the upstream has mended it and our way round it can go.

    - the prefill copy keeps min_tokens and n (https://github.com/vllm-project/vllm refuses min_tokens > max_tokens)
    - vLLM answers with the first prompt's kv_transfer_params only
    - NIXL's Python package has no setting for its progress thread's pause
    - a request's allowed_token_ids stay behind in the batch (https://github.com/vllm-project/vllm/issues/43894)
    """
    from nixl._api import nixl_agent
    from ray.llm._internal.serve.engines.vllm.kv_transfer import base
    from vllm.entrypoints.openai.completion import serving
    from vllm.v1.worker.gpu_input_batch import InputBatch

    clamp = inspect.getsource(base.clamp_request_to_single_token)
    assert "agent_config.pthrDelay = 0" in inspect.getsource(nixl_agent)
    assert "min_tokens" not in clamp
    assert ".n = " not in clamp
    assert "allowed_token_ids_mask_cpu_tensor[last_req_index].fill_" not in inspect.getsource(InputBatch.condense)
    assert "final_res_batch[0].kv_transfer_params" in inspect.getsource(serving)
