"""Two rows compared over silos: at equal local work, by mean or by spread."""

from __future__ import annotations

import pytest
from papers.made_up import outcome
from papers.round_by_round import plus, results, run, verdict

from amity.papers.comparison import Work, compare


def test_fine_tuned_rows_are_compared_a_round_earlier() -> None:
    """In their last rounds fine-tuning is ahead by one point; with as many trainings it is behind by one."""
    tuned, plain = run([plus(0), plus(2), plus(4)], "fedavg-ft"), run([plus(0), plus(2), plus(3)])
    found = compare([plain], [tuned])
    assert found is not None and found.difference == pytest.approx(1) and found.work == Work(-1, equal=True)
    assert found.test().p == 2 / 2**8
    other = compare([tuned], [plain])
    assert other is not None and other.difference == pytest.approx(-1) and other.work == Work(1, equal=True)
    told = verdict(results({"fedamp": plain, "fedavg-ft": tuned}))
    assert told == (
        "- it is: **confirmed** (1 of 1 comparisons; 1 clearly so, 0 clearly not). fedavg-ft at equal work, so a round "
        "earlier."
    )


def test_the_best_of_the_earlier_rounds_counts_and_rows_of_equal_work_lose_none() -> None:
    tuned, plain = run([plus(5), plus(2), plus(4)], "fedavg-ft"), run([plus(0), plus(2), plus(3)])
    found = compare([plain], [tuned])
    assert found is not None and found.difference == pytest.approx(-2)
    prox = run([plus(0), plus(1), plus(6)], "fedprox-ft")
    both = compare([prox], [tuned])
    assert both is not None and both.difference == pytest.approx(1) and both.work == Work()


def test_fine_tuning_for_twice_the_epochs_is_two_rounds_ahead() -> None:
    tuned = run([plus(1), plus(2), plus(4)], "fedavg-ft", settings={"ft_epochs": 10})
    found = compare([run([plus(0), plus(2), plus(3)])], [tuned])
    assert found is not None and found.difference == pytest.approx(2) and found.work == Work(-2)


def test_a_record_of_many_silos_keeps_the_best_round_before_the_last() -> None:
    earlier = {"round": 2, "mean": 85.5, "accuracy": plus(2)}
    tuned = run([plus(0), plus(2), plus(4)], "fedavg-ft", kept=False, earlier=earlier)
    found = compare([run([plus(0), plus(2), plus(3)], kept=False)], [tuned])
    assert found is not None and found.difference == pytest.approx(1) and found.test().p == 2 / 2**8


def test_the_spread_is_that_within_each_seed() -> None:
    """Seeds on other levels: the spread is 0 in each, however far apart the seeds are."""
    level = [run([[value] * 6], seed=seed) for seed, value in enumerate((50.0, 90.0))]
    found = compare(level, [run([[60.0, 70, 60, 70, 60, 70]], seed=seed) for seed in range(2)], "spread")
    assert found is not None and found.difference == pytest.approx(5)


def test_what_rounding_leaves_of_a_tie_is_a_tie() -> None:
    """Gains of 1/3 at three silos and a loss of 2/3 at a fourth, as records keep them: 66.6667 - 66.3333 is 0.3334.

    Ranks 2, 2, 2 against 4: of the 16 sums 0, 2 (3 times), 4 (3 + 1) are at most 4. As 1, 2, 3 against 4 it were 7.
    """
    good, bad = outcome([33.3333, 66.6667, 100.0, 0.0]), outcome([33.0, 66.3333, 99.6667, 0.6667])
    compared = compare([good], [bad])
    assert compared is not None and compared.test().p == 2 * 8 / 16
