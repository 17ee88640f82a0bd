"""What happens beside the requests while a run lasts: KV bytes from /metrics, utilisation and energy from NVML."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from types import TracebackType
from typing import Any, Self

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_SAMPLE = re.compile(r"^(vllm:nixl_\w+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)
EVERY_S = 0.2


def nixl_sums(text: str) -> dict[str, float]:
    """vLLM's NIXL counters and histogram sums of a metrics text, added up over all replicas. Pure."""
    sums: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def transfer_figures(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """KV bytes, GB/s while transferring, and failures between two readings; empty without NIXL. Pure."""

    def moved(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    if "vllm:nixl_bytes_transferred_sum" not in after:
        return {}
    carried = moved("vllm:nixl_bytes_transferred_sum")
    seconds = moved("vllm:nixl_xfer_time_seconds_sum")
    return {
        "kv_bytes": carried,
        "kv_gb_per_s": carried / seconds / 1e9 if seconds > 0 else 0.0,
        "kv_failed": moved("vllm:nixl_num_failed_transfers_total"),
        "kv_expired": moved("vllm:nixl_num_kv_expired_reqs_total"),
    }


def metrics_of(url: str, key: str | None = None) -> dict[str, float]:
    """The endpoint's NIXL sums; empty where it has no /metrics for us."""
    request = urllib.request.Request(f"{url}/metrics")  # noqa: S310 - the user's own endpoint
    if key:
        request.add_header("authorization", f"Bearer {key}")
    with contextlib.suppress(OSError), OPENER.open(request, timeout=30) as answer:
        return nixl_sums(answer.read().decode("utf-8", "replace"))
    return {}


class Gpus:
    """Every GPU of this machine while a block runs. figures: gpu_util_percent and gpu_joules; empty without NVML."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._nvml: Any = None
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml

    def __enter__(self) -> Self:
        if self._nvml is not None:
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        nvml = self._nvml
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        utils: list[float] = []
        joules = 0.0
        last = time.monotonic()
        while not self._stop.wait(EVERY_S):
            now = time.monotonic()
            for handle in handles:
                with contextlib.suppress(nvml.NVMLError):
                    utils.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
                    joules += nvml.nvmlDeviceGetPowerUsage(handle) / 1000 * (now - last)
            last = now
        if utils:
            self.figures = {"gpu_util_percent": sum(utils) / len(utils), "gpu_joules": joules}
