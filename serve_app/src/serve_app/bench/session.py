"""The runs of a bench, in order: warm-up, each trace's ABAB, the sweep over rates, the one over prompt lengths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from serve_app.bench import figures, traces
from serve_app.bench.figures import Run, Slo
from serve_app.bench.load import Asked, Target
from serve_app.bench.traces import Trace

COMPARED = ("ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms", "e2e_p50_ms", "e2e_p99_ms", "goodput_rps",
            "tokens_per_s")  # fmt: skip
SWEEP = (0.25, 0.5, 0.75, 1.0, 1.25)
"""Rates of the sweep, as parts of what one node answers when it is kept busy."""
FEWEST = 8
"""Requests a run has at least: fewer have no p90."""
PARTS = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 7 / 8)
"""Prompt lengths of the sweep, as parts of the context."""


class Runs(Protocol):
    """Does one run."""

    def __call__(self, target: Target, asked: Asked) -> Run: ...


@dataclass(frozen=True)
class Settings:
    """seconds: of arrivals a run. load: part of one node's capacity at which traces are compared. busy: requests in
    flight while that capacity is measured. base_seed: of the first run; each pair of runs has its own, since a repeated
    prompt would come from the prefix cache."""

    seeds: int = 5
    seconds: float = 5.0
    load: float = 0.5
    busy: int = 8
    sweep: bool = True
    lengths: bool = True
    length_seeds: int = 2
    base_seed: int = 0
    slo: Slo | None = None


@dataclass
class Session:
    """Runs everything; `result` grows with it."""

    run: Runs
    pd: Target
    one: Target
    context: int
    settings: Settings
    say: Callable[[str], None]
    save: Callable[[dict[str, Any]], None] = lambda _: None
    result: dict[str, Any] = field(default_factory=dict)
    _seed: int = 0
    _slo: Slo | None = None

    def all(self, chosen: Sequence[Trace]) -> dict[str, Any]:
        """The whole bench."""
        self._slo = self.settings.slo or self._light(chosen[0])
        self.result |= {"slo": dataclasses.asdict(self._slo), "traces": [], "sweep": [], "lengths": []}
        for trace in chosen:
            self.result["traces"].append(self.compare(trace, self.settings.seeds))
            self.save(self.result)  # a bench that is stopped has told what it knew
        if self.settings.sweep:
            self._sweep(chosen[0])
        if self.settings.lengths:
            self._lengths()
        return self.result

    # ---- parts ----

    def _light(self, trace: Trace) -> Slo:
        """The SLO where none was given: 5 x the first token's and 3 x the other tokens' time on an idle node."""
        self.say("idle node: what an unhurried request takes (for the SLO)")
        seed = self._next()
        for target in (self.pd, self.one):
            self.run(target, Asked(trace, math.inf, 2, seed, 1))  # the first requests of all compile and connect
        calm = self.run(self.one, Asked(trace, math.inf, FEWEST, self._next(), 1))
        gaps = [gap for one in calm.itl for gap in one]
        return Slo(5 * figures.percentile(calm.ttft, 50), 3 * figures.percentile(gaps, 50))

    def compare(self, trace: Trace, seeds: int) -> dict[str, Any]:
        """One trace, A B A B."""
        capacity = self._capacity(trace)
        rate = capacity * self.settings.load
        runs: dict[str, list[dict[str, float]]] = {"pd": [], "one": []}
        for number in range(seeds):
            seed = self._next()
            # A B B A: whatever drifts over the minutes favours neither.
            for target in (self.pd, self.one) if number % 2 == 0 else (self.one, self.pd):
                runs[target.name].append(self._figures(target, self._asked(trace, rate, seed)))
        found = [c for figure in COMPARED if (c := self._compared(figure, runs)) is not None]
        told = {c.figure: c for c in found}
        self.say(f"{trace.name}: " + verdict(told))
        return {
            "name": trace.name, "what": trace.what, "prompt": trace.prompt, "output": trace.output,
            "burstiness": trace.burstiness, "capacity_rps": capacity, "rate_rps": rate, "runs": runs,
            "compared": [c.as_json() for c in found], "verdict": verdict(told),
        }  # fmt: skip

    def _sweep(self, trace: Trace) -> None:
        capacity = self._capacity(trace)
        points: dict[str, list[tuple[float, float]]] = {"pd": [], "one": []}
        for part in SWEEP:
            rate, seed = capacity * part, self._next()
            both = {t.name: self._figures(t, self._asked(trace, rate, seed)) for t in (self.pd, self.one)}
            self.result["sweep"].append({"rate_rps": rate, **both})
            for name, point in both.items():
                points[name].append((rate, point["goodput_share"]))
            self.say(f"sweep {rate:.2f}/s: SLO kept by {both['pd']['goodput_share']:.0%} (P/D), "
                     f"{both['one']['goodput_share']:.0%} (one node)")  # fmt: skip
        self.result["knee_rps"] = {name: figures.knee(found) for name, found in points.items()}
        self.result["sweep_trace"] = trace.name

    def _lengths(self) -> None:
        points = []
        for length in sorted({max(16, int(self.context * part)) for part in PARTS}):
            told = self.compare(traces.of_length(length, max(8, self.context // 32)), self.settings.length_seeds)
            self.result["lengths"].append(told)
            points.append((length, self._compared("itl_p99_ms", told["runs"])))
        self.result["break_even_prompt"] = figures.break_even(points)

    # ---- one run ----

    def _capacity(self, trace: Trace) -> float:
        """Requests a second that one node answers when it is kept busy."""
        busy = self.settings.busy
        found = self.run(self.one, Asked(trace, math.inf, 2 * busy, self._next(), busy))
        return len(found.ttft) / found.duration_s

    def _asked(self, trace: Trace, rate: float, seed: int) -> Asked:
        return Asked(trace, rate, max(FEWEST, round(rate * self.settings.seconds)), seed)

    def _figures(self, target: Target, asked: Asked) -> dict[str, float]:
        if self._slo is None:
            raise RuntimeError("no SLO yet")
        return figures.summary(self.run(target, asked), self._slo)

    @staticmethod
    def _compared(figure: str, runs: dict[str, list[dict[str, float]]]) -> figures.Comparison | None:
        return figures.compare(figure, [run[figure] for run in runs["pd"]], [run[figure] for run in runs["one"]])

    def _next(self) -> int:
        self._seed += 1
        return self.settings.base_seed + self._seed


NAMES = {
    "ttft_p50_ms": "median first token",
    "ttft_p99_ms": "p99 first token",
    "itl_p50_ms": "median gap between tokens",
    "itl_p99_ms": "p99 gap between tokens",
    "e2e_p50_ms": "median request",
    "e2e_p99_ms": "p99 request",
    "goodput_rps": "goodput",
    "tokens_per_s": "tokens/s",
}


def verdict(told: dict[str, figures.Comparison]) -> str:
    """A trace's result in words."""
    parts = []
    for word in ("better", "worse"):
        which = [f"{NAMES[c.figure]} x{c.ratio:.2f}" for c in told.values() if c.verdict == word]
        if which:
            parts.append(f"P/D is {word} in {', '.join(which)}")
    return "; ".join(parts) if parts else "P/D and one node are within noise of each other"
