"""A bench's result as a table for a terminal. Pure."""

from __future__ import annotations

import math
from typing import Any

from serve_app.bench.session import NAMES


def table(result: dict[str, Any]) -> str:
    """All of it in text."""
    lines = [f"SLO: first token within {result['slo']['ttft_s'] * 1000:.0f} ms, tokens every "
             f"{result['slo']['itl_s'] * 1000:.1f} ms on average"]  # fmt: skip
    for trace in result["traces"]:
        lines += ["", *_trace(trace)]
    if result.get("sweep"):
        lines += ["", *_sweep(result)]
    if result.get("lengths"):
        lines += ["", *_lengths(result)]
    if result.get("cost"):
        lines += ["", *_cost(result["cost"])]
    return "\n".join(lines)


def _trace(trace: dict[str, Any]) -> list[str]:
    seeds = len(trace["runs"]["pd"])
    lines = [
        f"{trace['name']}: {trace['what']} ({trace['prompt'] or '?'} + {trace['output']} tokens, "
        f"{trace['rate_rps']:.2f} requests/s, {seeds} seeds)",
        f"  {'':<28}{'P/D':>10}{'one node':>10}{'ratio':>8}  {'95 % interval':<16}verdict",
    ]
    for one in trace["compared"]:
        interval = f"{one['low']:.2f} .. {one['high']:.2f}"
        lines.append(
            f"  {NAMES[one['figure']]:<28}{_shown(one['figure'], one['pd']):>10}{_shown(one['figure'], one['one']):>10}"
            f"{one['ratio']:>8.2f}  {interval:<16}{one['verdict']}"
        )
    failed = {name: sum(run["failed"] for run in runs) for name, runs in trace["runs"].items()}
    if any(failed.values()):
        lines.append(f"  FAILED requests: {failed['pd']:.0f} (P/D), {failed['one']:.0f} (one node)")
    moved = [run["kv_gb_per_s"] for run in trace["runs"]["pd"] if "kv_gb_per_s" in run]
    if moved:
        lines.append(f"  KV moved at {sorted(moved)[len(moved) // 2]:.3g} GB/s while transferring (median of runs)")
    elif trace["runs"]["pd"]:
        lines.append("  KV transfer: not measured (no NIXL counters in /metrics)")
    return [*lines, f"  {trace['verdict']}"]


def _shown(figure: str, value: float) -> str:
    return f"{value:.1f} ms" if figure.endswith("_ms") else f"{value:.2f}"


def _sweep(result: dict[str, Any]) -> list[str]:
    lines = [f"sweep of {result['sweep_trace']}: share of requests that kept the SLO",
             f"  {'requests/s':>12}{'P/D':>8}{'one node':>10}{'tokens/s P/D':>14}{'one node':>10}"]  # fmt: skip
    for point in result["sweep"]:
        pd, one = point["pd"], point["one"]
        lines.append(f"  {point['rate_rps']:>12.2f}{pd['goodput_share']:>8.0%}{one['goodput_share']:>10.0%}"
                     f"{pd['tokens_per_s']:>14.1f}{one['tokens_per_s']:>10.1f}")  # fmt: skip
    knees = {name: f"{knee:.2f}/s" if knee else "below the lowest rate" for name, knee in result["knee_rps"].items()}
    return [*lines, f"  knee (90 % keep the SLO): {knees['pd']} (P/D), {knees['one']} (one node)"]


def _lengths(result: dict[str, Any]) -> list[str]:
    lines = ["p99 gap between tokens by prompt length",
             f"  {'prompt':>8}{'P/D':>12}{'one node':>12}{'ratio':>8}  verdict"]  # fmt: skip
    for point in result["lengths"]:
        for one in point["compared"]:
            if one["figure"] == "itl_p99_ms":
                lines.append(f"  {point['prompt']:>8}{one['pd']:>9.1f} ms{one['one']:>9.1f} ms{one['ratio']:>8.2f}"
                             f"  {one['verdict']}")  # fmt: skip
    found = result.get("break_even_prompt")
    said = f"from {found} tokens on" if found else "at no length that was tried"
    return [*lines, f"  P/D's p99 gap is better {said}"]


def _cost(cost: list[dict[str, Any]]) -> list[str]:
    lines = ["dollars per million output tokens", f"  {'trace':<12}{'P/D':>10}{'one node':>10}"]
    for row in cost:
        lines.append(f"  {row['trace']:<12}{_dollars(row['pd']):>10}{_dollars(row['one']):>10}")
    return lines


def _dollars(value: float) -> str:
    return "-" if math.isinf(value) else f"{value:.2f}"
