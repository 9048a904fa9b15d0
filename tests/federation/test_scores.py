"""What a silo may say of its model: every score that a model can have, and no other."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.federation.messages import Measured
from amity.federation.scores import LARGEST, impossible
from amity.metric import METRICS

SHARES = [metric for metric in METRICS.values() if metric.labels == "classes"]
NUMBERS = [metric for metric in METRICS.values() if metric.labels == "quantities"]


def said(main: float, **fields: object) -> Measured:
    return Measured("run", 1, 0, 9, main, 1.0, {})._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", SHARES, ids=lambda metric: metric.key)
@given(value=st.floats(0, 100), examples=st.integers(0, 2**40))
def test_shares_are_of_a_hundred(metric, value: float, examples: int) -> None:  # type: ignore[no-untyped-def]
    assert impossible(said(value, val=value, metrics={metric.key: value}, examples=examples), metric) is None
    for wrong in (-1 - value, 101 + value, math.inf, -math.inf):
        assert "between 0 and 100" in str(impossible(said(wrong), metric))
        assert "between 0 and 100" in str(impossible(said(value, val=wrong), metric))
        assert "between 0 and 100" in str(impossible(said(value, metrics={metric.key: wrong}), metric))


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.key)
def test_what_is_undefined_or_has_failed_is_no_lie(metric) -> None:  # type: ignore[no-untyped-def]
    assert impossible(said(math.nan, val=math.nan, loss=math.nan, train_loss=math.nan), metric) is None
    if metric in NUMBERS:
        assert impossible(said(metric.failed, val=metric.failed, loss=math.inf), metric) is None
        assert impossible(said(-metric.failed), metric) is not None


def test_quantities_have_ends_that_sums_bear() -> None:
    r2, rmse = METRICS["r2"], METRICS["rmse"]
    assert impossible(said(-1e80), r2) is impossible(said(100.0), r2) is impossible(said(1e80), rmse) is None
    assert all(impossible(said(value), r2) for value in (101.0, -2 * LARGEST))
    assert all(impossible(said(value), rmse) for value in (-0.1, 2 * LARGEST))
    assert impossible(said(1.0, loss=2 * LARGEST), rmse) and impossible(said(1.0, train_loss=2 * LARGEST), rmse)
