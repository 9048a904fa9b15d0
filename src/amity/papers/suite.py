"""Methods over many federations: what each recovers of the gain, whom it harms, where it stands.

An experiment's columns are federations, two of its rows are the ends of the scale: silos alone, and all data in one
place, which each silo then goes on from. Numbers are of the delivered models, over the seeds that a row has in common
with both ends (`amity.worth.recovered` has the arithmetic).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from amity import statistics
from amity.metric import METRICS, Metric
from amity.papers.outcome import DIFFERENCE_DIGITS, Outcome
from amity.papers.results import Results
from amity.worth import consortium, judgement, paired
from amity.worth.contents import HarmedShare, Judgement, RecoveredShare, Score
from amity.worth.recovered import Mean, harmed, mean_difference, recovered

MOST_OF_IT = 0.9
"""The share of its final gain over alone that a method is waited for."""


class Place(NamedTuple):
    """Where a method stands in a federation."""

    rank: int  # 1 is best
    level: bool  # whether it is the best one, or cannot be told from it
    regret: float  # what the oracle gains beyond it, in percent of the whole gain; NaN where that is undefined


@dataclass(frozen=True)
class Federation:
    """One column of a suite."""

    results: Results
    column: str
    alone: str = "separate"
    ceiling: str = "pooled"

    @cached_property
    def rows(self) -> list[str]:
        """The methods that can be compared here; none while either end of the scale is missing."""
        return [row for row in self.results.rows if row not in (self.alone, self.ceiling) and self.seeds(row)]

    @cached_property
    def metric(self) -> Metric:
        """What scores are of."""
        return METRICS[self.results.seeds(self.alone, self.column)[0].score]

    def seeds(self, row: str) -> list[tuple[Outcome, Outcome, Outcome]]:
        """Return a method's runs beside those of both ends of the scale, one each for every seed that all have."""
        ends = [{run.seed: run for run in self.results.seeds(end, self.column)} for end in (self.alone, self.ceiling)]
        runs = self.results.seeds(row, self.column)
        return [(run, ends[0][run.seed], ends[1][run.seed]) for run in runs if all(run.seed in end for end in ends)]

    def recovered(self, row: str) -> RecoveredShare:
        """Return the share of the gain that a method recovers."""
        ours, alone, best = self._scores(row)
        return recovered(ours, alone, best, self.metric)

    def over_alone(self, row: str) -> Mean:
        """Return what silos gain over training alone, in the mean."""
        ours, alone, _ = self._scores(row)
        return mean_difference(ours, alone, self.metric)

    def added(self, row: str) -> float:
        """Return what the ending adds to the round before it, in the mean over seeds; NaN where there is none."""
        runs = self.results.seeds(row, self.column)
        pairs = [run.rounds["mean"][-2:] for run in runs if run.content.get("ending") and len(run.rounds["mean"]) > 1]
        both = [(after, before) for before, after in pairs if before is not None and after is not None]
        return statistics.mean([self.metric.gain(after, before) for after, before in both])

    def whole(self) -> Mean:
        """Return what silos would gain with all data in one place, over the seeds that both ends have."""
        pairs = self.results.same_seed_pairs(self.ceiling, self.alone, self.column)
        best, alone = (self._joined([pair[side].delivered for pair in pairs]) for side in (0, 1))
        return mean_difference(best, alone, self.metric)

    def harmed(self, row: str) -> HarmedShare:
        """Return the share of silos that are better alone."""
        return harmed(self.counts(row))

    def counts(self, row: str) -> consortium.Counts:
        """Return how many silos gain, lose, and show no clear difference: of silos dealt anew, those of all seeds."""
        if row not in self._counts:
            self._counts[row] = self._counted(row)
        return self._counts[row]

    @cached_property
    def _counts(self) -> dict[str, consortium.Counts]:
        """The counts by row that were asked for: resampling makes them, which takes a while."""
        return {}

    def _counted(self, row: str) -> consortium.Counts:
        pairs = [(run, alone) for run, alone, _ in self.seeds(row)]
        score: Score = "r2" if self.metric.labels == "quantities" else "accuracy"
        groups = [pairs] if self._same_silos else [[pair] for pair in pairs]
        found: list[Judgement] = []
        for group in groups:
            for silo in range(len(group[0][0].silos)):
                differences = [_difference(run, alone, silo) for run, alone in group]
                found.append(judgement.judged(judgement.over_seeds(differences, score))[0])
        return consortium.counted(found)

    def worst(self, row: str) -> float:
        """Return the worst silo's score, the mean over seeds."""
        return statistics.mean([self.metric.worst(_measured(run.delivered)) for run, _, _ in self.seeds(row)])

    def rounds_needed(self, row: str) -> float:
        """Return the round by which a method has most of its final gain over alone: NaN where it ends without a gain.

        The ending counts as a round of its own, after the last.
        """
        return statistics.mean([self._rounds_needed(run, alone) for run, alone, _ in self.seeds(row)])

    def _rounds_needed(self, run: Outcome, alone: Outcome) -> float:
        gained = self.metric.gain(run.last, alone.last)
        if not gained > 0:
            return math.nan
        means = zip(run.rounds["round"], run.rounds["mean"], strict=True)
        enough = MOST_OF_IT * gained
        return next(round for round, mean in means if mean is not None and self.metric.gain(mean, alone.last) >= enough)

    def traffic(self, row: str) -> float:
        """Return what a silo sends and receives in a run, in MB."""
        sent = [(run.content["bytes_up"] + run.content["bytes_down"]) / len(run.silos) for run, _, _ in self.seeds(row)]
        return statistics.mean(sent) / 1e6

    def places(self, rows: Sequence[str], oracle: str = "") -> dict[str, Place]:
        """Return where each of some methods stands among them: by its mean gain over alone, which seeds are paired in.

        Level with the best are those that Wilcoxon's test over silos cannot tell from it, Holm-adjusted. `oracle`: the
        row that regret is measured from, which stands outside the ranks; else it is the best one.
        """
        gains = {row: self.over_alone(row).points for row in rows if row in self.rows}
        order = sorted((row for row in gains if not math.isnan(gains[row])), key=lambda row: -gains[row])
        if not order:
            return {}
        best, *others = order
        tests = statistics.family([self._test(row, best) for row in others])
        whole = self.whole()
        unit = 100 / whole.points if whole.low > 0 else math.nan
        top = gains[best]
        if oracle:
            top = self.over_alone(oracle).points if oracle in self.rows else math.nan
        found = {best: Place(1, True, (top - gains[best]) * unit)}
        for number, (row, test) in enumerate(zip(others, tests, strict=True), start=2):
            equal = gains[row] == gains[order[number - 2]]
            rank = found[order[number - 2]].rank if equal else number
            found[row] = Place(rank, not test.clear, (top - gains[row]) * unit)
        return found

    def _test(self, row: str, best: str) -> statistics.RankTest:
        pairs = self.results.same_seed_pairs(row, best, self.column)
        one, other = ([pair[side].delivered for pair in pairs] for side in (0, 1))
        return statistics.wilcoxon(*statistics.paired_over_seeds(one, other, self._same_silos), DIFFERENCE_DIGITS)

    def _scores(self, row: str) -> list[list[float]]:
        """Return the silos' scores with the method's model, alone, and with all data in one place."""
        seeds = self.seeds(row)
        return [self._joined([three[side].delivered for three in seeds]) for side in range(3)]

    def _joined(self, seeds: Sequence[Sequence[float]]) -> list[float]:
        """Return a score for each silo: its mean over seeds, or the silos of all seeds where these are dealt anew."""
        if self._same_silos:
            return [statistics.mean(list(silo)) for silo in zip(*seeds, strict=True)]
        return [value for silos in seeds for value in silos]

    @cached_property
    def _same_silos(self) -> bool:
        return self.results.seeds(self.alone, self.column)[0].natural


def _measured(scores: Sequence[float]) -> list[float]:
    return [score for score in scores if not math.isnan(score)]


def _difference(run: Outcome, alone: Outcome, silo: int) -> paired.Difference:
    """Return how much better a silo's model is than its own, on the same test examples."""
    ours, theirs = run.each(silo), alone.each(silo)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return paired.UNKNOWN
    if ours.dtype == bool:
        return paired.of_outcomes(ours, theirs)
    around = paired.around_of(theirs, alone.r2(silo)) or paired.around_of(ours, run.r2(silo))
    return paired.UNKNOWN if around is None else paired.of_squares(ours, theirs, around)
