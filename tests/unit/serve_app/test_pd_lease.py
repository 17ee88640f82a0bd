"""A lease that is believed in must really run."""

from __future__ import annotations

import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from serve_app.engine import lease  # noqa: E402

times = st.floats(0, 1e5, allow_nan=False)
spans = st.floats(0, 1e3, allow_nan=False)


@given(times, spans, spans, spans, st.floats(-1e6, 1e6), st.floats(6, 600))
def test_it_is_never_believed_in_longer_than_it_runs(
    sent: float, transit: float, working: float, after_last: float, offset: float, lease_s: float
) -> None:
    """Whatever the clocks' difference and however long messages are under way.

    In decode's time: sent; prefill's first sign at sent + transit; its last at + working; the engine ends after it.
    """
    first = sent + transit
    last = first + working
    begins = last + after_last
    until = lease.valid_until(sent, first + offset, last + offset, lease_s)
    assert until <= begins + lease_s + 1e-3


def test_a_short_prefill_has_nearly_the_whole_lease() -> None:
    assert lease.valid_until(100.0, 7.0, 7.0, 30.0) == 100 + 30 - lease.MARGIN_S


def test_a_long_prefill_does_not_use_the_lease_up() -> None:
    assert lease.valid_until(100.0, 7.0, 67.0, 30.0) == 160 + 30 - lease.MARGIN_S


def test_unknown_is_not_refused() -> None:
    assert lease.runs(None, 1e9)
    assert lease.runs(10.0, 9.0)
    assert not lease.runs(10.0, 10.0)


def test_rebasing() -> None:
    assert lease.rebased(50.0, 40.0, 1040.0) == 1050.0
    assert lease.rebased(50.0, 0.0, 1040.0) == 50.0
    assert lease.rebased(None, 40.0, 1040.0) is None
