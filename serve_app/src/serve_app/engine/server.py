"""What every engine replica of ours does differently from Ray's LLMServer."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import AsyncGenerator
from typing import Any

from ray import serve
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    ErrorResponse,
)
from ray.llm._internal.serve.core.server.llm_server import LLMServer
from ray.llm._internal.serve.serving_patterns.data_parallel.dp_server import DPServer

from serve_app.engine import beats
from serve_app.observe import metrics, note, trace
from serve_app.observe.note import Note
from serve_app.scale.report import Reporting

SIDE_CHANNEL = ("VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_NIXL_SIDE_CHANNEL_HOST")


class ServerMixin(Reporting):
    """Goes before Ray's class among the bases."""

    _llm_config: Any
    engine: Any
    role = "engine"
    """The value of the `role` label in metrics."""

    def _init_shared(self, llm_config: Any, *args: Any, **kwargs: Any) -> None:
        """Before anything is set up: drops a side channel that was inherited from the shell Ray was started in.

        Every replica of the node would take the same port, and vLLM's host default is localhost. Set in the
        configuration (runtime_env.env_vars) it is meant, and stays.
        """
        meant = ((llm_config.runtime_env or {}).get("env_vars") or {}).keys()
        for name in SIDE_CHANNEL:
            if name in os.environ and name not in meant:
                del os.environ[name]
        super()._init_shared(llm_config, *args, **kwargs)  # type: ignore[misc]

    async def _start_engine(self) -> None:
        """Starts the engine without Ray's usage report.

        The report starts a process of its own, which imports everything once more, takes 0.7 GB, and delays the
        replica by 10 s and more; with usage statistics off (as here) it has nothing to say.
        """
        await self.engine.start()
        await self._first_token()

    async def _first_token(self) -> None:
        """Real tokens before the replica counts as running. Raises RuntimeError where none come.

        An engine can report that it is ready and die at its first request (seen: no C++ compiler in the container).
        The second one is sampled, and goes through the chat template: what that loads and compiles took 15 s of the
        first user's time. Models that can't do one of them refuse with 4xx, and are taken at their word.
        """
        model = self._llm_config.model_id
        plain = CompletionRequest(model=model, prompt="ready?", max_tokens=1, temperature=0)
        said = [{"role": "user", "content": "ready?"}]
        sampled = ChatCompletionRequest(model=model, messages=said, max_tokens=2, temperature=1, top_p=0.9)
        for answers in (self.engine.completions(plain, None), self.engine.chat(sampled, None)):
            async for answer in answers:
                if isinstance(answer, ErrorResponse) and (answer.error.code or 500) >= 500:
                    raise RuntimeError(f"the engine gave no first token: {answer.error.message}")

    async def beating(self, request: Any, raw_request_info: Any, kind: str, beat_s: float) -> AsyncGenerator[Any, None]:
        """`kind` ("chat", "completions") with signs of life between its items (beats.py).

        The request comes first: Ray's request routers look for the prompt there.
        """
        facts = note.begin()
        parent = (raw_request_info.headers if raw_request_info else {}).get(trace.HEADER)
        with trace.span(f"serve_app {self.role}", parent) as span:
            if raw_request_info is not None:  # what comes after hangs below this span
                headers = {**raw_request_info.headers, **span.headers()}
                raw_request_info = dataclasses.replace(raw_request_info, headers=headers)
            stream = beats.beating(getattr(self, kind)(request, raw_request_info), beat_s)
            async with contextlib.aclosing(stream):
                async for item in stream:
                    if facts and not isinstance(item, float):
                        span.set(**{f"serve_app.{name}": value for name, value in facts.items()})
                        yield Note(dict(facts))
                        facts.clear()
                    yield item

    async def metrics(self) -> list[tuple[dict[str, str], str]]:
        """This replica's metrics, with the labels that tell it apart."""
        context = serve.get_replica_context()
        return [({"role": self.role, "replica": context.replica_tag}, metrics.text())]

    async def other_metrics(self) -> list[tuple[dict[str, str], str]]:
        """Those of replicas that only this one can reach: none."""
        return []

    async def state(self) -> dict[str, Any]:
        """For /ready: this replica answers, and nothing is missing."""
        return {"ready": True, "degraded": []}


class Server(ServerMixin, LLMServer):  # type: ignore[misc]
    """One node: prefill and decode in one engine."""


class DPOneServer(ServerMixin, DPServer):  # type: ignore[misc]
    """One application, a data-parallel gang of engines."""
