"""`--measure`: the KV path timed, and what was found judged. `judge` is pure."""

from __future__ import annotations

from collections.abc import Iterator

from serve_app.doctor.model import Finding
from serve_app.kvbench.plan import Plan, size_text
from serve_app.kvbench.report import Report, Row

SIZES = (1 << 20, 64 << 20)
DESCRIPTORS = (1, 64)
WHY = "https://github.com/vllm-project/vllm/issues/41814"
SAME_GPU, NVLINK = 1097.0, 190.0
"""GB/s measured on H200s: a CUDA IPC copy within one, NIXL over NVLink between two."""

SHARE_OF_LINK = 0.5
CLOCK_S = 1.0


def plans(uses_gpu: bool, gpus: int) -> list[Plan]:
    """What is measured: the memory that KV lies in here, on two GPUs where there are two."""
    memory, devices = ("VRAM", (0, min(1, gpus - 1))) if uses_gpu else ("DRAM", (0, 0))
    return [
        Plan(name, memory, ("READ",), SIZES, DESCRIPTORS, seconds=0.3, devices=devices) for name in ("UCX", "LIBFABRIC")
    ]


def judge(report: Report, same_gpu: bool, efa: bool) -> Iterator[Finding]:
    """One finding a backend at least, each with the transport that was used and what it should reach."""
    for backend, error in report.failed.items():
        if backend in ("UCX", "LIBFABRIC"):
            needed = (efa and backend == "LIBFABRIC") or not report.rows
            yield Finding(
                "measured",
                "error" if needed else "warning",
                f"{backend} moved nothing: {error}",
                "serve_app kvbench says more; NIXL_LOG_LEVEL=DEBUG still more",
                WHY,
            )
    for backend in dict.fromkeys(row.backend for row in report.rows):
        rows = [row for row in report.rows if row.backend == backend]
        yield from _backend(backend, rows, report, same_gpu, efa)


def _backend(backend: str, rows: list[Row], report: Report, same_gpu: bool, efa: bool) -> Iterator[Finding]:
    best = max(rows, key=lambda row: row.rate)
    carried = f"{best.transport} (counters: {', '.join(best.seen) or 'no network interface moved'})"
    rate = best.rate / 1e9
    link = report.best_raw(best.op, best.size)
    told = (
        f"{backend} moves {best.memory} at {rate:.2f} GB/s ({size_text(best.size)}, {best.descriptors} "
        f"descriptor{'s' * (best.descriptors != 1)}) over {carried}"
    )
    if wrong := [row for row in rows if not row.verified]:
        yield Finding(
            "measured",
            "error",
            f"{backend}: what arrived is not what was sent, in {len(wrong)} of {len(rows)} cases",
            "do not serve with it; serve_app kvbench shows the cases",
            WHY,
        )
    elif odd := next((row.contradiction for row in rows if row.contradiction), ""):
        yield Finding(
            "measured", "error", f"{backend}: {odd}", "serve_app kvbench --json says which counters moved", WHY
        )
    elif best.memory == "VRAM" and "tcp" in best.transport:
        should = SAME_GPU if same_gpu else NVLINK
        between = "within this GPU a CUDA IPC copy does" if same_gpu else "between GPUs of one machine NVLink does"
        yield Finding(
            "measured",
            "warning",
            f"{told}: UCX found nothing better and said nothing; {between} {should:.0f} GB/s (H200)",
            "prefill and decode on a GPU each, or on a node each with EFA",
            WHY,
        )
    elif backend == "LIBFABRIC" and efa and "efa" not in best.transport:
        yield Finding(
            "measured",
            "warning",
            f"{told}, although EFA is here",
            "unset FI_PROVIDER; serve_app doctor without --measure says what is wrong with EFA",
            WHY,
        )
    elif backend == "LIBFABRIC" and best.memory == "VRAM" and best.hmem is False:
        yield Finding(
            "measured",
            "warning",
            f"{told}, through host memory: the provider has no FI_HMEM",
            "GPU-direct RDMA: see the check gpu_direct",
            WHY,
        )
    elif link and best.seen and best.rate < SHARE_OF_LINK * link.rate:
        yield Finding(
            "measured",
            "warning",
            f"{told}; the link does {link.rate / 1e9:.2f} GB/s ({link.tool})",
            "free cores for NIXL's threads; bigger blocks",
            WHY,
        )
    else:
        reach = f"; the link itself does {link.rate / 1e9:.2f} GB/s ({link.tool})" if link and best.seen else ""
        yield Finding("measured", "ok", told + reach)


def clocks(ahead_s: float) -> Iterator[Finding]:
    """The two nodes' clocks."""
    if abs(ahead_s) > CLOCK_S:
        yield Finding(
            "clocks",
            "warning",
            f"the other node's clock is {ahead_s:+.1f} s off this one's",
            "keep both with chrony",
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/set-time.html",
        )
    else:
        yield Finding("clocks", "ok", f"the two nodes' clocks are {abs(ahead_s):.2f} s apart")
