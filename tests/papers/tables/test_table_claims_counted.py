"""Claims at equal work, without wins over failed runs, by mean or by spread."""

from __future__ import annotations

import pytest
from papers.round_by_round import COLLAPSED, DIVERGES, UNIFORM, plus, results, run, verdict

from amity.papers.comparison import Work, compare


def test_what_was_kept_as_a_mean_only_is_compared_and_not_tested() -> None:
    tuned = run([plus(0), plus(2), plus(4)], "fedavg-ft", kept=False)
    plain = run([plus(0), plus(2), plus(3)], kept=False)
    found = compare([plain], [tuned])
    assert found is not None and found.difference == pytest.approx(1) and not found.kept
    told = verdict(results({"fedamp": plain, "fedavg-ft": tuned}))
    assert "**confirmed, but not clearly** (1 of 1 comparisons; 0 clearly so, 0 clearly not, 1 not tested)" in told
    assert told.endswith("Not tested: means were kept of that round, and not the silos' values.")


def test_a_round_that_was_not_evaluated_leaves_the_work_unequal_and_the_verdict_says_so() -> None:
    tuned, plain = run([plus(0), None, plus(4)], "fedavg-ft"), run([plus(0), plus(2), plus(3)])
    found = compare([plain], [tuned])
    assert found is not None and found.difference == pytest.approx(-1) and found.work == Work(-1, equal=False)
    told = verdict(results({"fedamp": plain, "fedavg-ft": tuned}))
    assert (
        "**not confirmed**" in told
        and "fedavg-ft had a local training more: the round before was not evaluated." in told
    )


@pytest.mark.parametrize(
    ("warning", "said"),
    [
        (DIVERGES, "other on X: diverged in round 2"),
        (COLLAPSED, "other on X: attention collapsed to self"),
        (UNIFORM, "other on X: uniform attention"),
    ],
)
def test_a_win_over_a_run_that_failed_is_counted_apart(warning: str, said: str) -> None:
    other = run([plus(-5)] * 3, warnings=[warning], warned={warning: 2})
    fair = run([plus(-1)] * 3)
    told = verdict(results({"ours": run([plus(0)] * 3), "other": other, "fair": fair}))
    assert "**confirmed** (1 of 1 comparisons that count, of 2; 1 clearly so, 0 clearly not)." in told
    assert f"Not counted: 1 won by or against runs that diverged or degenerated ({said})." in told
    alone = verdict(results({"ours": run([plus(0)] * 3), "other": other}))
    assert "**not judged** (no comparison counts of 1 that were run)." in alone


def test_a_win_of_a_run_that_is_another_method_is_counted_apart_and_a_loss_is_not() -> None:
    ours = run([plus(0)] * 3, warnings=[UNIFORM])
    told = verdict(results({"ours": ours, "worse": run([plus(-1)] * 3), "better": run([plus(1)] * 3)}))
    assert "**not confirmed** (0 of 1 comparisons that count, of 2;" in told
    assert "(ours on X: uniform attention)" in told and "contrary: ours on X against better -1.00" in told


def test_how_many_seeds_failed_is_told() -> None:
    seeds = [run([plus(-5)] * 3, seed=seed, warnings=[COLLAPSED] if seed else []) for seed in range(3)]
    told = verdict(results({"ours": [run([plus(0)] * 3, seed=seed) for seed in range(3)], "other": seeds}))
    assert "other on X: attention collapsed to self in 2 of 3 seeds" in told


def test_a_warning_of_another_kind_is_no_failure() -> None:
    other = run([plus(-5)] * 3, warnings=["silos took unequal numbers of steps in the last round"])
    assert "**confirmed** (1 of 1 comparisons;" in verdict(results({"ours": run([plus(0)] * 3), "other": other}))


WIDE, TIGHT = [60.0, 70, 75, 85, 90, 100], [70.0, 74, 77, 78, 81, 85]


def test_a_claim_may_be_about_the_spread_over_silos_of_which_less_is_better() -> None:
    """Means 80 and 77.5. Distances from them: 20 10 5 5 10 20, and 7.5 3.5 .5 .5 3.5 7.5: all six are nearer."""
    tight, wide = run([TIGHT] * 2), run([WIDE] * 2)
    found = compare([tight], [wide], "spread")
    wider = (2 * (400 + 100 + 25) / 6) ** 0.5 - (2 * (56.25 + 12.25 + 0.25) / 6) ** 0.5
    assert found is not None and found.difference == pytest.approx(wider) and found.test().p == 2 / 2**6
    assert "**confirmed** (1 of 1 comparisons; 1 clearly so," in verdict(
        results({"t": tight, "w": wide}, measure="spread")
    )
    told = verdict(results({"w": wide, "t": tight}, measure="spread"))
    assert "**not confirmed**" in told and f"contrary: w on X against t +{wider:.2f} in spread (p 0.0312)" in told
    assert "**not confirmed**" in verdict(results({"t": tight, "w": wide}))  # by the mean
