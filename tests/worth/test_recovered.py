"""The share of the gain recovered and the share of silos harmed, worked out by hand."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from amity.metric import ACCURACY, RMSE
from amity.worth.consortium import Counts
from amity.worth.recovered import harmed, mean_difference, recovered

ALONE = [80.0, 82.0, 84.0, 86.0]
CEILING = [84.0, 87.0, 88.0, 91.0]  # 4, 5, 4, 5 points above: 4.5 in the mean


def test_share_by_hand() -> None:
    found = recovered([82.0, 85.0, 84.0, 90.0], ALONE, CEILING, ACCURACY)  # 2, 3, 0, 4: 2.25 in the mean
    assert found["share"] == pytest.approx(50.0) and found["ceiling"] == pytest.approx(4.5)
    assert found["words"] == "recovers 50 % of the 4.5 points that all data in one place would bring"


def test_ends_of_the_scale() -> None:
    assert recovered(ALONE, ALONE, CEILING, ACCURACY)["share"] == 0
    assert recovered(CEILING, ALONE, CEILING, ACCURACY)["share"] == pytest.approx(100)
    worse = [value - 4.5 for value in ALONE]
    below = recovered(worse, ALONE, CEILING, ACCURACY)
    assert below["share"] == pytest.approx(-100) and below["words"].startswith("is below training alone: -100 % of")


def test_lower_may_be_better() -> None:
    found = recovered([1.8, 2.8, 3.8], [2.0, 3.0, 4.0], [1.6, 2.5, 3.6], RMSE)  # 0.2 of (0.4 + 0.5 + 0.4) / 3
    assert found["share"] == pytest.approx(100 * 0.6 / 1.3)
    assert "0.43 RMSE" in found["words"]


def test_no_gain_beyond_chance_has_no_share() -> None:
    found = recovered(CEILING, ALONE, [90.0, 81.0, 85.0, 84.0], ACCURACY)  # 10, -1, 1, -2
    assert found["share"] is None
    assert found["words"].startswith("share of the gain undefined: all data in one place are not above training alone")
    assert "+2 points" in found["words"]


@pytest.mark.parametrize("silos", [0, 1])
def test_one_silo_shows_nothing(silos: int) -> None:
    assert recovered(CEILING[:silos], ALONE[:silos], CEILING[:silos], ACCURACY)["share"] is None


def test_silos_without_a_score_are_left_out() -> None:
    more = [math.nan, 0.0, 0.0]
    found = recovered([*CEILING, *more], [*ALONE, 50.0, math.nan, 50.0], [*CEILING, 90.0, 90.0, math.nan], ACCURACY)
    assert found["share"] == pytest.approx(100)


def test_a_failed_model_is_not_left_out() -> None:
    found = recovered([-math.inf, *CEILING[1:]], ALONE, CEILING, ACCURACY)
    assert found["share"] is None and "models of 1 of 4 silos have failed" in found["words"]


def test_interval_is_the_paired_t_interval() -> None:
    found = mean_difference(CEILING, ALONE, ACCURACY)
    test = stats.ttest_rel(CEILING, ALONE).confidence_interval(0.95)
    assert (found.points, found.low, found.high) == pytest.approx((4.5, test.low, test.high))


def test_harmed_by_hand() -> None:
    found = harmed(Counts(gain=10, lose=6, level=14, unknown=3))  # 20 % of 30
    assert found["share"] == pytest.approx(20)
    assert found["beyond"] == pytest.approx(100 * (0.2 - 0.025) / 0.975)
    assert found["words"] == "6 of 30 silos are better alone (20.0 %), more than the 2.5 % that chance would give"


def test_one_loss_may_be_chance() -> None:
    found = harmed(Counts(0, 1, 39, 0))
    assert found["share"] == pytest.approx(2.5) and found["beyond"] == 0
    assert found["p"] == pytest.approx(1 - 0.975**40)
    assert (
        found["words"]
        == "1 of 40 silos is better alone (2.5 %), not clearly more than the 2.5 % that chance would give"
    )


def test_nobody_is_harmed_or_known() -> None:
    assert harmed(Counts(5, 0, 5, 0))["words"] == "none of 10 silos is better alone"
    assert harmed(Counts(0, 0, 0, 4))["share"] is None
