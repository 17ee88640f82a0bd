"""What limits, logs, traces, scaling and draining hold on to in Ray and vLLM, beside test_seams.py."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args

import pytest
from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionRequest, CompletionRequest
from ray.llm._internal.serve.core.ingress.utils import _sanitize_chat_completion_request
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.serve import context
from ray.serve._private import constants, replica
from ray.serve.config import AutoscalingContext, AutoscalingPolicy
from ray.serve.handle import DeploymentHandle
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlBaseConnector
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlKVConnectorStats
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.engine.output_processor import OutputProcessor, RequestState
from vllm.v1.request import Request

SIGNATURES: list[tuple[Any, str, list[str]]] = [
    (NixlBaseConnector, "get_num_new_matched_tokens", ["self", "request", "num_computed_tokens"]),
    (NixlBaseConnector, "update_connector_output", ["self", "connector_output"]),
    (NixlBaseConnector, "get_kv_connector_stats", ["self"]),
    (NixlKVConnectorStats, "record_kv_expired_req", ["self"]),
    (NixlKVConnectorStats, "clone_and_reset", ["self"]),
    (DeploymentHandle, "broadcast", ["self", "method_name", "args", "kwargs"]),
]


@pytest.mark.parametrize(("cls", "name", "parameters"), SIGNATURES, ids=lambda value: getattr(value, "__name__", None))
def test_signatures(cls: Any, name: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(cls, name)).parameters) == parameters


def test_headers_can_be_replaced_on_the_way() -> None:
    raw = RawRequestInfo(headers={"a": "1"})
    assert dataclasses.replace(raw, headers={"b": "2"}).headers == {"b": "2"}


def test_an_engine_knows_its_uncomputed_prompts_and_a_request_its_trace() -> None:
    source = inspect.getsource(OutputProcessor) + inspect.getsource(RequestState)
    for name in ("self.request_states", "self.is_prefilling", "self.prompt_len"):
        assert name in source
    assert "self.trace_headers" in inspect.getsource(Request)
    assert "otlp_traces_endpoint" in {field.name for field in dataclasses.fields(AsyncEngineArgs)}


@pytest.mark.parametrize("cls", [ChatCompletionRequest, CompletionRequest])
def test_the_usage_of_a_stream_can_be_asked_for(cls: Any) -> None:
    kinds = [kind for kind in get_args(cls.model_fields["stream_options"].annotation) if hasattr(kind, "model_fields")]
    assert [sorted(kind.model_fields) for kind in kinds] == [["continuous_usage_stats", "include_usage"]]


def test_serve_asks_replicas_and_rules() -> None:
    assert "record_autoscaling_stats" in inspect.getsource(replica)
    assert {"aggregated_metrics", "current_num_replicas", "target_num_replicas"} <= set(
        inspect.signature(AutoscalingContext.__init__).parameters
    )
    assert {"policy_function", "policy_kwargs"} <= set(AutoscalingPolicy.model_fields)
    assert "world_size" in {field.name for field in dataclasses.fields(context.ReplicaContext)}
    assert hasattr(constants, "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS")


def test_messages_are_made_readable_more_than_once() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}
    request = _sanitize_chat_completion_request(ChatCompletionRequest.model_validate(body))
    assert [list(request.messages[0]["content"]) for _ in range(2)] == [body["messages"][0]["content"]] * 2
