from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve_app.bench import figures
from serve_app.bench.figures import Comparison, Run, Slo

RUN = Run(ttft=(0.1, 0.2, 0.9), itl=((0.01, 0.03), (0.05,), ()), output=(3, 2, 1), failed=1, duration_s=2.0, extra={})


def test_percentile_is_linear_between_ranks() -> None:
    assert figures.percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert figures.percentile([7.0], 99) == 7.0
    assert math.isnan(figures.percentile([], 50))


def test_a_failed_request_is_never_good_and_counts_as_sent() -> None:
    slo = Slo(ttft_s=0.5, itl_s=0.02)
    assert figures.good(RUN, slo) == 1  # the second is too slow between tokens, the third to its first
    told = figures.summary(RUN, slo)
    assert told["goodput_share"] == 0.25
    assert told["goodput_rps"] == 0.5
    assert told["tokens_per_s"] == 3.0
    assert told["failed"] == 1


def test_a_request_of_one_token_has_no_gap_and_can_be_good() -> None:
    assert figures.good(RUN, Slo(1.0, 0.001)) == 1


@pytest.mark.parametrize(
    ("figure", "factor", "verdict"),
    [("itl_p99_ms", 0.5, "better"), ("itl_p99_ms", 2.0, "worse"), ("goodput_rps", 2.0, "better"),
     ("tokens_per_s", 0.5, "worse")],
)  # fmt: skip
def test_a_clear_difference_is_told_with_the_right_sign(figure: str, factor: float, verdict: str) -> None:
    one = [10.0, 11.0, 9.5, 10.2]
    told = figures.compare(figure, [value * factor * (1 + 0.01 * i) for i, value in enumerate(one)], one)
    assert told is not None
    assert told.verdict == verdict
    assert told.low <= told.ratio <= told.high


def test_a_difference_smaller_than_the_noise_is_no_difference() -> None:
    told = figures.compare("ttft_p50_ms", [10, 14, 8, 12], [11, 10, 12, 9])
    assert told is not None
    assert told.verdict == "within noise"


def test_one_pair_has_no_interval() -> None:
    assert figures.compare("ttft_p50_ms", [10.0], [9.0]) is None
    assert figures.compare("ttft_p50_ms", [10.0, math.nan], [9.0, 8.0]) is None


@given(st.lists(st.tuples(st.floats(0.001, 1e3), st.floats(0.001, 1e3)), min_size=2, max_size=14))
def test_swapping_the_targets_inverts_the_ratio(pairs: list[tuple[float, float]]) -> None:
    pd, one = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = figures.compare("ttft_p50_ms", pd, one), figures.compare("ttft_p50_ms", one, pd)
    assert there is not None
    assert back is not None
    assert there.ratio * back.ratio == pytest.approx(1)
    assert {there.verdict, back.verdict} in ({"better", "worse"}, {"within noise"})


def _point(verdict: str) -> Comparison:
    return Comparison("itl_p99_ms", 1, 1, 1, 1, 1, verdict)  # type: ignore[arg-type]


def test_break_even_needs_every_longer_prompt_to_be_better() -> None:
    assert figures.break_even([(64, _point("worse")), (256, _point("better")), (1024, _point("better"))]) == 256
    assert figures.break_even([(64, _point("better")), (256, _point("within noise")), (1024, _point("better"))]) == 1024
    assert figures.break_even([(64, _point("better")), (256, _point("worse"))]) is None
    assert figures.break_even([]) is None


def test_the_knee_is_before_the_first_rate_that_is_too_much() -> None:
    assert figures.knee([(1, 1.0), (2, 0.95), (3, 0.5), (4, 0.99)]) == 2
    assert figures.knee([(1, 0.2)]) is None


def test_dollars() -> None:
    assert figures.dollars_per_million(3.6, 1000) == pytest.approx(1.0)
    assert figures.dollars_per_million(3.6, 0) == math.inf
