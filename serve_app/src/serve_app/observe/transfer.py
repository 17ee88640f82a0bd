"""KV transfers as spans, and refusals of the lease proof as a metric: what the connector's scheduler side sees.

A mixin before vLLM's connector class. The span begins when the engine decides to fetch a prompt's KV and ends when
the last worker has it, below the request's own span (vLLM keeps the request's trace headers).
"""

from __future__ import annotations

import functools
import time
from typing import Any

from serve_app.observe import trace

MOST = 10_000
"""Transfers that are watched at a time; one that never ends must not be remembered for ever."""


class Observed:
    """Goes before vLLM's connector among the bases."""

    connector_worker: Any

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Begins a span, or counts a refusal."""
        params = request.kv_transfer_params
        wanted = bool(params and params.get("do_remote_prefill"))
        found: tuple[int | None, bool] = super().get_num_new_matched_tokens(request, num_computed_tokens)  # type: ignore[misc]
        if wanted and request.kv_transfer_params is None:
            self._refusals.record_kv_expired_req()
        elif wanted and found[1]:
            if len(self._begun) >= MOST:
                del self._begun[next(iter(self._begun))]
            self._begun[request.request_id] = (time.time_ns(), request.trace_headers, found[0] or 0)
        return found

    def update_connector_output(self, connector_output: Any) -> None:
        """Ends the spans of what has arrived."""
        for request_id in connector_output.finished_recving or ():
            begun = self._begun.pop(request_id, None)
            if begun is not None:
                start, headers, tokens = begun
                trace.past("kv_transfer", headers, start, time.time_ns(), **{"serve_app.tokens": tokens})
        super().update_connector_output(connector_output)  # type: ignore[misc]

    def get_kv_connector_stats(self) -> Any:
        """The workers' on a worker; on the scheduler's side the refusals, which no worker hears of."""
        if self.connector_worker is not None or self._refusals.is_empty():
            return super().get_kv_connector_stats()  # type: ignore[misc]
        return self._refusals.clone_and_reset()

    @functools.cached_property
    def _begun(self) -> dict[str, tuple[int, Any, int]]:
        return {}

    @functools.cached_property
    def _refusals(self) -> Any:
        from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlKVConnectorStats

        return NixlKVConnectorStats()
