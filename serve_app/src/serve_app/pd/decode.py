"""The decode side: gets a prompt's KV cache from prefill, decodes on its own engine, and does without if it must."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from ray import serve
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    ErrorResponse,
)
from ray.llm._internal.serve.serving_patterns.prefill_decode.pd_server import (
    DPPDDecodeServer,
    PDDecodeServer,
    PDOrchestratorMixin,
)
from ray.llm._internal.serve.utils.server_utils import get_serve_request_id
from ray.serve._private.http_util import session_id_from_headers

from serve_app.engine import beats, lease
from serve_app.engine.server import ServerMixin
from serve_app.observe import metrics, note
from serve_app.pd import shape
from serve_app.pd.circuit import Circuit
from serve_app.pd.replicas import count_replicas, replica_ids
from serve_app.pd.settings import Settings
from serve_app.pd.warmup import Warmup

logger = logging.getLogger("ray.serve")
METRICS_S = 5.0

TRANSFER_MARGIN_S = 3.0
STEP_TOKENS = 2048
"""vLLM's default max_num_batched_tokens, the least of all platforms: what an engine computes in one step, which nothing
interrupts."""
EXPIRY = "remote_blocks_expiry_time"
"""The field of kv_transfer_params that serve_app.engine.connector reads."""


class PrefillFailed(Exception):
    """Prefill gave no usable answer; decode computes the prompt itself. reason: a short word for metrics and logs."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


class DecodeMixin(ServerMixin):
    """What is changed about Ray's decode server: `_pd_handle_request`, and what it needs."""

    _prefill_handle: Any
    role = "decode"

    async def __init__(  # type: ignore[misc] # Serve awaits it, as Ray's own
        self, llm_config: Any, *, prefill_server: Any, settings: Settings, **kwargs: Any
    ) -> None:
        self.settings = settings
        self.circuit = Circuit(self._probe, settings.retry_s, self._on_circuit)
        self._local = asyncio.Semaphore(settings.local_prefill_limit)
        self.counts: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()
        start: Any = super().__init__
        await start(llm_config, prefill_server=prefill_server, **kwargs)
        self.warmup = Warmup(lambda: replica_ids(self._prefill_handle), self._warm_one)
        self._keep(self.warmup.run())
        waited = 0.0
        while settings.wait_for_prefill and not self.warmup.done:
            # No limit: Serve shows the replica as starting, and this line says what for.
            if waited % 15 == 0:
                logger.warning("waiting for a token through every prefill replica (kv_transfer.wait_for_prefill)")
            waited += 1
            await asyncio.sleep(1.0)

    async def _maybe_prewarm(self) -> None:
        """Not Ray's, which fails the constructor when prefill is not there after 300 s; see Warmup."""

    async def _warm_one(self, probing: bool = False) -> str:
        """One token through prefill; the id of the prefill engine that computed it. Raises PrefillFailed.

        probing: although the circuit is open.
        """
        request = CompletionRequest(model=self._llm_config.model_id, prompt=f"ready {uuid.uuid4()}?", max_tokens=1)
        (copy,) = shape.prefill_copies(request, f"warm-{uuid.uuid4()}")
        if self.circuit.open and not probing:
            raise PrefillFailed("circuit_open")
        answer = await self._prefill("completions", copy, None)
        engine = str(answer.kv_transfer_params["remote_engine_id"])
        await self._fetch("completions", copy, answer.kv_transfer_params, None)
        return engine

    def _keep(self, work: Any) -> None:
        """Runs something in the background; kept, since asyncio forgets tasks that nobody holds."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- one request ----

    async def _pd_handle_request(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        kind = "chat" if isinstance(request, ChatCompletionRequest) else "completions"
        reason = shape.local_reason(request)
        short = reason is None and shape.guess_tokens(request) < (self.settings.min_tokens or 0)
        if reason is None and not short:
            try:
                async with contextlib.aclosing(self._remote(kind, request, raw_request_info)) as answer:
                    async for chunk in answer:
                        yield chunk
                return
            except PrefillFailed as failure:
                reason = failure.reason
                logger.warning("%s: prefill %s, computed by decode %s", get_serve_request_id(), reason, failure.detail)
        self._count(f"local_{reason or 'short'}")
        metrics.PREFILLS.labels("local", reason or "short").inc()
        note.put(prefill="local", **({"fallback": reason} if reason else {}))
        work = self._here if short else self._alone
        async with contextlib.aclosing(work(kind, request, raw_request_info)) as answer:
            async for chunk in answer:
                yield chunk

    async def _remote(self, kind: str, request: Any, raw: Any) -> AsyncGenerator[Any, None]:
        """Prefill elsewhere, decode here. Raises PrefillFailed before anything was yielded, never after."""
        copies = shape.prefill_copies(request, get_serve_request_id() or request.request_id)
        answers = await self._prefill_all(kind, copies, raw)
        params = [answer.kv_transfer_params for answer in answers]
        own = None
        if shape.compound(request):
            await self._fetch_all(kind, copies, params, raw)
        else:
            own = params[0]
        try:
            local = await self._engine(kind, shape.decode_copy(request, own), raw)
        except BaseException:  # the client went away just now
            self._release(params)
            raise
        async with contextlib.aclosing(local):
            try:
                first = await beats.within(anext(local), self._patience())
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise self._stuck() from None
            except BaseException:
                self._release(params)
                raise
            self._count("remote")
            metrics.PREFILLS.labels("remote", "").inc()
            note.put(prefill="remote")
            yield first
            async for chunk in local:
                yield chunk

    def _patience(self) -> float:
        """Seconds until a request with prefill's KV must have begun: as long as KV may be read, and a moment more.

        A transfer that never ends keeps its blocks, and must: NIXL goes on writing into them after the transfer was
        released (measured; docs/design.md). So the request is begun anew, with other blocks.
        """
        return self.settings.lease_s + TRANSFER_MARGIN_S

    def _stuck(self) -> PrefillFailed:
        self.circuit.trip("transfer")
        return PrefillFailed("transfer", f"(no end within {self._patience():.0f} s)")

    async def _alone(self, kind: str, request: Any, raw: Any) -> AsyncGenerator[Any, None]:
        """Prefill and decode on this engine, a few prompts at a time: the engine also serves running streams."""
        await self._local.acquire()
        holding = True
        try:
            async with contextlib.aclosing(self._here(kind, request, raw)) as answer:
                async for chunk in answer:
                    if holding:
                        self._local.release()  # the first token is out: the prompt is computed
                        holding = False
                    yield chunk
        finally:
            if holding:
                self._local.release()

    async def _here(self, kind: str, request: Any, raw: Any) -> AsyncGenerator[Any, None]:
        """Prefill and decode on this engine."""
        local = await self._engine(kind, shape.decode_copy(request, None), raw)
        async with contextlib.aclosing(local):
            async for chunk in local:
                yield chunk

    async def _engine(self, kind: str, request: Any, raw: Any) -> Any:
        """The request on this replica's engine, past the orchestrator: LLMServer's own method."""
        return await getattr(super(PDOrchestratorMixin, self), kind)(request, raw)

    # ---- prefill ----

    async def _prefill_all(self, kind: str, copies: list[Any], raw: Any) -> list[Any]:
        """Prefill's answers, one a copy. Raises PrefillFailed when one of them did not come; the others are dropped."""
        if self.circuit.open:
            raise PrefillFailed("circuit_open")
        tasks = [asyncio.ensure_future(self._prefill(kind, copy, raw)) for copy in copies]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            self._release([answer.kv_transfer_params for answer in done if not isinstance(answer, BaseException)])
            raise

    async def _prefill(self, kind: str, copy: Any, raw: Any) -> Any:
        """One prefill. Its replica must not be silent for longer than settings.silence_s."""
        if self._prefill_replicas() == 0:
            self.circuit.trip("no_replica")
            raise PrefillFailed("no_replica")
        sent = time.monotonic()
        signs: list[float] = []
        stream = beats.Kept(self._handle(raw).beating.remote(copy, raw, kind, self.settings.beat_s))
        try:
            while isinstance(answer := await stream.next(self.settings.silence_s), float):
                signs = [*signs[:1], answer]
        except asyncio.CancelledError:
            self._keep(self._abandon(stream, cancel=shape.guess_tokens(copy) > STEP_TOKENS))
            raise
        except TimeoutError:
            self._keep(self._abandon(stream))
            self.circuit.trip("silent")
            raise PrefillFailed("silent", f"({self.settings.silence_s} s)") from None
        except StopAsyncIteration:
            raise PrefillFailed("no_answer") from None
        except Exception as error:
            # Whatever Ray raises for an actor, a node or an engine that died.
            self.circuit.trip("died")
            raise PrefillFailed("died", type(error).__name__) from error
        if isinstance(answer, ErrorResponse):
            # Decode's own engine gives the same refusal, in one node's words (or no refusal at all).
            raise PrefillFailed("refused")
        if not answer.kv_transfer_params:
            raise PrefillFailed("no_params")
        answer.kv_transfer_params[EXPIRY] = lease.valid_until(sent, signs[0], signs[-1], self.settings.lease_s)
        metrics.PREFILL_SECONDS.observe(time.monotonic() - sent)
        return answer

    def _handle(self, raw: Any) -> Any:
        """The handle to prefill, for this request's adapter and session."""
        handle = self._prefill_handle
        adapter = serve.get_multiplexed_model_id()
        if adapter:
            handle = handle.options(multiplexed_model_id=adapter)
        session = session_id_from_headers(raw.headers) if raw is not None else None
        return handle.options(session_id=session) if session else handle

    def _prefill_replicas(self) -> int | None:
        return count_replicas(self._prefill_handle)

    async def _probe(self) -> bool:
        """Is prefill there?"""
        if self._prefill_replicas() == 0:
            return False
        answer = self._prefill_handle.options(stream=False).alive.remote()
        await asyncio.wait_for(answer, self.settings.silence_s)
        if self.circuit.reason == "transfer":  # it is there; does KV come through?
            await asyncio.wait_for(self._warm_one(probing=True), self._patience())
        return True

    async def _abandon(self, stream: beats.Kept, cancel: bool = True) -> None:
        """Ends a prefill that nobody waits for. What it has computed is let go where it is still heard of.

        cancel: False lets a short one end by itself. A cancellation that crosses its answer loses the answer, and with
        it who could let go its blocks before the lease ends (3 of 500 clients that left at random).
        """
        if cancel:
            with contextlib.suppress(Exception):
                stream.stream.cancel()  # type: ignore[attr-defined] # Serve's response generator
        end = time.monotonic() + self.settings.lease_s
        try:
            while isinstance(answer := await stream.next(max(0.0, end - time.monotonic())), float):
                pass
        except BaseException:  # cancelled, as it should be; or it came to nothing
            stream.forget()
            return
        if params := getattr(answer, "kv_transfer_params", None):
            self._release([params])

    # ---- KV ----

    async def _fetch_all(self, kind: str, copies: list[Any], params: list[Any], raw: Any) -> None:
        """Fetches each prompt's KV into this engine's prefix cache, once. Raises PrefillFailed if that does not end."""
        try:
            fetches = (self._fetch(kind, copy, p, raw) for copy, p in zip(copies, params, strict=True))
            await beats.within(asyncio.gather(*fetches), self._patience())
        except TimeoutError:
            raise self._stuck() from None
        except BaseException:
            self._release(params)
            raise

    async def _fetch(self, kind: str, copy: Any, params: dict[str, Any], raw: Any) -> None:
        local = await self._engine(kind, shape.fetch_copy(copy, params), raw)
        async with contextlib.aclosing(local):
            async for _ in local:
                pass

    def _release(self, held: list[dict[str, Any]]) -> None:
        """Makes prefill free blocks that nobody may have read, without waiting for its lease to end.

        What was told to prefill already is not told twice (serve_app.engine.connector).
        """
        for params in held:
            self._keep(self._let_go(params))

    async def _let_go(self, params: dict[str, Any]) -> None:
        self._count("released")
        metrics.RELEASED.inc()
        # vLLM's own way for requests that its server refuses: one that is aborted before it begins.
        tell = getattr(self.engine._engine_client, "notify_kv_transfer_request_rejected", None)
        if tell is None:
            return
        with contextlib.suppress(Exception):
            await tell(f"release-{uuid.uuid4()}", {**params, "do_remote_prefill": True})

    # ---- what happened ----

    def _on_circuit(self, is_open: bool, reason: str) -> None:
        state = "open" if is_open else "closed"
        logger.warning("prefill circuit %s (%s) at %.3f", state, reason, time.time())
        self._count(f"circuit_{state}")
        metrics.CIRCUIT.set(int(is_open))
        if is_open:
            metrics.CIRCUIT_OPENED.labels(reason).inc()

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    async def other_metrics(self) -> list[tuple[dict[str, str], str]]:
        """Prefill's, which the ingress has no handle to."""
        answer = self._prefill_handle.broadcast("metrics")
        found = await answer.results_async(timeout_s=METRICS_S, return_exceptions=True)
        return [part for one in found if not isinstance(one, BaseException) for part in one]

    async def state(self) -> dict[str, Any]:
        """For /ready and tests."""
        away = self.circuit.open or self._prefill_replicas() == 0
        return {
            "ready": away or self.warmup.done,
            "degraded": ["prefill"] if away else [],
            "counts": dict(self.counts),
            "circuit_open": self.circuit.open,
            "circuit_reason": self.circuit.reason if self.circuit.open else "",
            "prefill_replicas": self._prefill_replicas(),
        }


class DecodeServer(DecodeMixin, PDDecodeServer):  # type: ignore[misc]
    """Decode with one engine a replica."""


class DPDecodeServer(DecodeMixin, DPPDDecodeServer):  # type: ignore[misc]
    """Decode with a data-parallel gang of engines."""
