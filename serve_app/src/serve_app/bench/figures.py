"""Figures from requests' times, and what may be concluded from them. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

QUANTILES = (50, 90, 99)

# Two-sided 95 % quantiles of Student's t by degrees of freedom: https://en.wikipedia.org/wiki/Student%27s_t-distribution
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Slo:
    """What a good request keeps: first token within ttft_s, no gap between tokens above itl_s on average."""

    ttft_s: float
    itl_s: float


@dataclass(frozen=True)
class Run:
    """One run's requests: seconds to the first token, seconds between tokens, whole seconds, tokens made, each by
    request; failed requests are only counted. duration_s: from first sent to last answered."""

    ttft: tuple[float, ...]
    itl: tuple[tuple[float, ...], ...]
    output: tuple[int, ...]
    failed: int
    duration_s: float
    extra: dict[str, float]

    @property
    def requests(self) -> int:
        """All that were sent."""
        return len(self.ttft) + self.failed


def percentile(values: Sequence[float], q: float) -> float:
    """Linear between ranks, as numpy's default; NaN for no values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def good(run: Run, slo: Slo) -> int:
    """Requests that kept the SLO; a failed one never did."""
    return sum(
        1
        for ttft, gaps in zip(run.ttft, run.itl, strict=True)
        if ttft <= slo.ttft_s and (not gaps or statistics.fmean(gaps) <= slo.itl_s)
    )


def summary(run: Run, slo: Slo) -> dict[str, float]:
    """One run in figures: ms for latencies; goodput in requests a second and as a share of those sent."""
    gaps = [gap for one in run.itl for gap in one]
    ends = [ttft + sum(one) for ttft, one in zip(run.ttft, run.itl, strict=True)]
    found: dict[str, float] = {}
    for name, values in (("ttft", list(run.ttft)), ("itl", gaps), ("e2e", ends)):
        for q in QUANTILES:
            found[f"{name}_p{q}_ms"] = percentile(values, q) * 1000
    kept = good(run, slo)
    return {
        **found,
        "goodput_rps": kept / run.duration_s,
        "goodput_share": kept / max(1, run.requests),
        "tokens_per_s": sum(run.output) / run.duration_s,
        "requests": float(run.requests),
        "failed": float(run.failed),
        **run.extra,
    }


@dataclass(frozen=True)
class Comparison:
    """pd / one node for one figure: ratio of medians-by-seed with its 95 % interval, and what follows from it."""

    figure: str
    pd: float
    one: float
    ratio: float
    low: float
    high: float
    verdict: Literal["better", "worse", "within noise"]

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return {k: getattr(self, k) for k in self.__dataclass_fields__}


MORE_IS_BETTER = ("goodput_rps", "goodput_share", "tokens_per_s")


def compare(figure: str, pd: Sequence[float], one: Sequence[float]) -> Comparison | None:
    """Pairs by seed: both targets got the same requests at the same times, so noise that hits a seed hits both.

    The interval is Student's, on the logarithms of the pairs' ratios. None with fewer than two usable pairs.
    """
    pairs = [(a, b) for a, b in zip(pd, one, strict=True) if a > 0 and b > 0]
    if len(pairs) < 2:
        return None
    logs = [math.log(a / b) for a, b in pairs]
    middle = statistics.fmean(logs)
    degrees = len(logs) - 1
    half = (_T95[degrees - 1] if degrees <= len(_T95) else 1.96) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    verdict: Literal["better", "worse", "within noise"] = "within noise"
    if low > 1 or high < 1:
        verdict = "better" if (low > 1) == (figure in MORE_IS_BETTER) else "worse"
    return Comparison(figure, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
                      math.exp(middle), low, high, verdict)  # fmt: skip


def break_even(points: Sequence[tuple[int, Comparison | None]]) -> int | None:
    """The shortest prompt from which on every longer one was better; None where there is none."""
    found: int | None = None
    for length, comparison in sorted(points, key=lambda point: -point[0]):
        if comparison is None or comparison.verdict != "better":
            break
        found = length
    return found


def knee(points: Sequence[tuple[float, float]], share: float = 0.9) -> float | None:
    """The highest rate at which at least `share` of the requests kept the SLO, up to the first rate at which they did
    not. points: (rate, share of good requests). None when the lowest rate was too much already."""
    found: float | None = None
    for rate, kept in sorted(points):
        if kept < share:
            break
        found = rate
    return found


def dollars_per_million(dollars_per_hour: float, tokens_per_s: float) -> float:
    """What a million output tokens cost at this rate; infinite for none."""
    return math.inf if tokens_per_s <= 0 else dollars_per_hour / (tokens_per_s * 3600) * 1e6
