"""vLLM's NIXL connector with three corrections, loaded by `kv_connector_module_path` under its own name.

Under its own name, because Ray picks its connector backend by it.

1. Lease proof (see lease.py). vLLM 0.29's decode reads whatever is at the address when it gets there: after a cut link
   or a pause the blocks are another prompt's by then. Measured: HTTP 200, wrong text, and decode's prefix cache stays
   poisoned for later requests. Here a read that can't be proven is refused before it starts; one whose lease ran out
   meanwhile counts as failed. `kv_load_failure_policy` decides what follows: recompute, or fail.
2. CPU affinity. On the CPU platform vLLM pins each worker to the last core of its NUMA node. Two engines on a node
   then share that core with both NIXL threads, and requests stall for 20 to 31 s. The cores are given back.
3. NIXL's progress thread rests between two looks instead of turning a core (progress.py).

The time comes in `remote_blocks_expiry_time`, a field of kv_transfer_params that vLLM carries to its workers anyway and
looks at only with `bidirectional_kv_xfer`; with that option nothing is changed here.
"""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector import NixlBaseConnector, NixlPullConnector
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import NixlPullConnectorWorker
from vllm.logger import init_logger

from serve_app.engine import lease, progress
from serve_app.observe.transfer import Observed

logger = init_logger(__name__)

EXPIRY = "remote_blocks_expiry_time"
PAUSE = "progress_us"
"""Our key in kv_connector_extra_config, beside vLLM's own (kv_transfer.progress_us in a configuration)."""
VLLM_THREADS = 4
"""vLLM's default of num_threads."""
TOLD = 10_000
"""Prompts that are remembered as released: more than can be in flight."""


class Scheduler(NixlPullConnectorScheduler):  # type: ignore[misc]
    """In the engine's core process."""

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """Nothing of the prompt comes from prefill when its lease can't be proven any more."""
        params = request.kv_transfer_params
        if not params or not params.get("do_remote_prefill") or self.is_bidirectional_kv_xfer_enabled:
            return super().get_num_new_matched_tokens(request, num_computed_tokens)  # type: ignore[no-any-return]
        reason = "released" if _prompt(params) in self._told else ""
        if not lease.runs(params.get(EXPIRY), time.perf_counter()):
            reason = "too old to read"
        if reason:
            logger.warning("KV lease refused (%s): request %s is computed here", reason, request.request_id)
            # Prefill gets no notification: its blocks are free, or soon will be.
            self._stop_heartbeat(request.request_id)
            request.kv_transfer_params = None
            return 0, False
        return super().get_num_new_matched_tokens(request, num_computed_tokens)  # type: ignore[no-any-return]

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """Nothing is said about a prompt to prefill twice: it has given the blocks to others after the first time.

        A second word comes from a release (pd.decode) of a prompt that was read, or told of, by itself. Prefill logs
        each as "Potentially invalid KV blocks", which must keep its meaning.
        """
        if not self.is_bidirectional_kv_xfer_enabled:
            for req_id, (request, blocks, _) in list(self._reqs_need_recv.items()):
                prompt = _prompt(request.kv_transfer_params or {})
                if prompt in self._told and not any(len(group) > 0 for group in blocks):
                    del self._reqs_need_recv[req_id]
                self._told[prompt] = None
            while len(self._told) > TOLD:
                del self._told[next(iter(self._told))]
        return super().build_connector_meta(scheduler_output)

    @functools.cached_property
    def _told(self) -> dict[tuple[Any, Any], None]:
        """Prompts of prefill's that were read or released, the oldest first."""
        return {}


def _prompt(params: dict[str, Any]) -> tuple[Any, Any]:
    """What names a prompt that prefill holds."""
    return params.get("remote_engine_id"), params.get("remote_request_id")


class Worker(NixlPullConnectorWorker):  # type: ignore[misc]
    """In each worker process."""

    def start_load_kv(self, metadata: Any) -> None:
        """Brings the times onto this process's clock."""
        now = time.perf_counter()
        # vLLM 0.26 does not send its scheduler's clock: the times then hold for workers on the scheduler's own node.
        theirs = getattr(metadata, "scheduler_clock", 0.0)
        for meta in metadata.reqs_to_recv.values():
            if meta.remote is not None:
                meta.remote.blocks_expiry_time = lease.rebased(meta.remote.blocks_expiry_time, theirs, now)
        super().start_load_kv(metadata)

    def _read_blocks_for_req(self, req_id: str, meta: Any) -> None:
        if self._refuse(req_id, meta, "before the read"):
            return
        super()._read_blocks_for_req(req_id, meta)

    def _pop_done_transfers(self, transfers: dict[str, list[Any]]) -> set[str]:
        done: set[str] = super()._pop_done_transfers(transfers)
        for req_id in done:
            meta = self._recving_metadata.get(req_id)
            if meta is not None:
                self._refuse(req_id, meta, "during the read")
        return done

    def _refuse(self, req_id: str, meta: Any, when: str) -> bool:
        """Counts the blocks as not loaded when the lease can't be proven; true when it did."""
        reads = any(len(group) > 0 for group in meta.local_block_ids)
        if self._bidirectional_kv_xfer_enabled or not reads:
            return False
        if meta.remote is None or lease.runs(meta.remote.blocks_expiry_time, time.perf_counter()):
            return False
        logger.warning("KV lease refused (ran out %s): request %s", when, req_id)
        self.xfer_stats.record_kv_expired_req()
        self._handle_failed_transfer(req_id, None)
        return True


class NixlConnector(Observed, NixlPullConnector):  # type: ignore[misc]
    """The pull connector, made of the two classes above."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        NixlBaseConnector.__init__(self, vllm_config, role, kv_cache_config)
        if role == KVConnectorRole.SCHEDULER:
            self.connector_scheduler = Scheduler(vllm_config, self.engine_id, kv_cache_config)
            return
        cores = os.sched_getaffinity(0)
        self.connector_worker = Worker(vllm_config, self.engine_id, kv_cache_config)
        if os.sched_getaffinity(0) != cores:
            logger.info("NIXL's worker may run on cores %s again", sorted(cores))
            give_back(cores)
        extra = vllm_config.kv_transfer_config.get_from_extra_config
        threads = {"num_threads": str(extra("num_threads", VLLM_THREADS))}
        plain = self.connector_worker.nixl_backends == ["UCX"]  # vLLM gives threads to nothing else
        progress.rest(self.connector_worker.nixl_wrapper, int(extra(PAUSE, 0)), {"UCX": threads} if plain else {})


def give_back(cores: set[int]) -> None:
    """Lets every thread of this process run on `cores`: threads inherit the affinity of the one that starts them."""
    for entry in os.listdir("/proc/self/task"):  # noqa: PTH208 - names only
        try:
            os.sched_setaffinity(int(entry), cores)
        except OSError:  # a thread that ended meanwhile
            continue
