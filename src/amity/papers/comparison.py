"""Two rows of an experiment, compared over silos and at equal local work."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from amity import statistics
from amity.papers.outcome import DIFFERENCE_DIGITS, AtRound, Outcome
from amity.papers.spec import Measure
from amity.statistics import RankTest


class Work(NamedTuple):
    """The difference in local work behind two rows."""

    ahead: float = 0.0  # trainings that a round of the first has had beyond those of the second
    equal: bool = True  # rounds were chosen so that work is equal; if not, the earlier round was not evaluated


class Matched(NamedTuple):
    """The runs of two rows, each at the round by which it is judged."""

    one: list[AtRound]
    other: list[AtRound]
    work: Work


class Comparison(NamedTuple):
    """The difference between two rows, over silos."""

    difference: float  # positive where the first is better
    one: list[float]  # a number per silo, higher is better, one for one where they are `paired`; none if not kept
    other: list[float]
    paired: bool
    work: Work = Work()

    @property
    def kept(self) -> bool:
        """True where there are silos' numbers to test."""
        return bool(self.one)

    def test(self, within: float = 0.0) -> RankTest:
        """Test that the first is better, or worse by less than `within`; p is NaN where there is nothing to test."""
        shifted = [value + within for value in self.one]
        test = statistics.wilcoxon if self.paired else statistics.rank_sum
        return test(shifted, self.other, DIFFERENCE_DIGITS)


def compare(ours: Sequence[Outcome], theirs: Sequence[Outcome], measure: Measure = "accuracy") -> Comparison | None:
    """Compare the runs of two rows, seed by seed; None where there is nothing to compare.

    Rows are compared silo by silo where their silos hold the same data, otherwise as two groups.
    """
    paired = not ours or not theirs or _data_of(ours[0]) == _data_of(theirs[0])
    if paired:
        of_seed = {run.seed: run for run in theirs}
        ours = [run for run in ours if run.seed in of_seed]
        theirs = [of_seed[run.seed] for run in ours]
    if not ours or not theirs:
        return None
    one, other, work = at_equal_work(ours, theirs, with_silos=measure == "spread")
    rank = ours[0].metric.rank  # higher is better from here on
    kept = [
        [[rank(value) for value in at.accuracies] for at in side if at.accuracies is not None] for side in (one, other)
    ]  # [side][seed][silo]
    if len(kept[0]) < len(one) or len(kept[1]) < len(other):
        means = [fmean(rank(at.mean) for at in side) for side in (one, other)]
        return Comparison(means[0] - means[1], [], [], paired, work)
    numbers = [_tightness(side) for side in kept] if measure == "spread" else kept
    silos = _paired(numbers[0], numbers[1], ours[0].natural) if paired else [_all_silos(side) for side in numbers]
    if not silos[0] or not silos[1]:
        return None
    levels = [_closeness(side) for side in kept] if measure == "spread" else [fmean(side) for side in silos]
    return Comparison(levels[0] - levels[1], silos[0], silos[1], paired, work)


def at_equal_work(ours: Sequence[Outcome], theirs: Sequence[Outcome], with_silos: bool = False) -> Matched:
    """Return the runs at equal local work, or as near to it as was recorded.

    A row that trains once more for every evaluation has had k + 1 trainings in round k: its best round is then sought
    among all but the last. `with_silos` asks for rounds of which the silos' accuracies were kept.
    """
    one, other = ([run.at_best for run in runs] for runs in (ours, theirs))
    ahead = ours[0].trainings_ahead - theirs[0].trainings_ahead if ours and theirs else 0.0
    if not ahead:
        return Matched(one, other, Work())
    earlier = [run.best_until(run.last_round - abs(ahead)) for run in (ours if ahead > 0 else theirs)]
    known = [at for at in earlier if at is not None and (at.accuracies is not None or not with_silos)]
    if len(known) < len(earlier):
        return Matched(one, other, Work(ahead, equal=False))
    return Matched(known, other, Work(ahead)) if ahead > 0 else Matched(one, known, Work(ahead))


def _data_of(outcome: Outcome) -> tuple[Any, ...]:
    """Return the options that decide which data a silo holds."""
    options = outcome.content["resolved"]
    return tuple(options.get(key) for key in ("data", "setting", "clients", "per_silo"))


def _paired(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], same: bool) -> list[list[float]]:
    return list(statistics.paired_over_seeds(one, other, same))


def _all_silos(seeds: Sequence[Sequence[float]]) -> list[float]:
    return [value for silos in seeds for value in silos if value == value]


def _tightness(seeds: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return how near each silo is to the mean over silos, higher being nearer: the idea of Levene's test."""
    return [[-abs(value - statistics.mean(silos)) for value in silos] for silos in seeds]


def _closeness(seeds: Sequence[Sequence[float]]) -> float:
    """Return how near silos are to each other: minus the spread, as the mean over seeds."""
    return -fmean(statistics.spread(silos) for silos in seeds)
