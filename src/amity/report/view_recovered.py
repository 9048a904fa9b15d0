"""The share of the gain that a method recovers, from its records, those of silos alone and of all data in one place."""

from __future__ import annotations

import math

from amity import statistics
from amity.metric import METRICS
from amity.record import Record, score_of
from amity.report.series import Series, same_tests
from amity.worth.contents import RecoveredShare
from amity.worth.recovered import recovered, undefined

Three = tuple[Record, Record, Record]

NOT_TRAINED_OUT = (
    "{names} stopped after the last round, so that scores tell how far silos were let go: run all with --ending auto"
)


def recovered_of(one: Series, alone: Series, ceiling: Series) -> RecoveredShare:
    """Return the share of the gain that a method recovers, over the seeds that all three series have."""
    series = (one, alone, ceiling)
    short = [each.name for each in series if any(run.config.get("ending") != "auto" for run in each.runs)]
    if short:
        return undefined(NOT_TRAINED_OUT.format(names=", ".join(short)))
    seeds = [threes for seed in one.seeds if (threes := _of_seed(series, seed)) is not None]
    if not seeds:
        return undefined("no seed has runs of all three on the same test examples")
    ours, theirs, best = _over_seeds(seeds, one.same_silos)
    return recovered(ours, theirs, best, METRICS[score_of(one.first.facts)])


def _of_seed(series: tuple[Series, Series, Series], seed: int) -> Three | None:
    found = [run for each in series for run in each.runs if run.results["seed"] == seed]
    if len(found) != 3 or not same_tests(found):
        return None
    one, alone, ceiling = found
    return one, alone, ceiling


def _over_seeds(seeds: list[Three], same_silos: bool) -> list[list[float]]:
    """Return the silos' scores with each of the three models: means over seeds of the same silos, else all silos."""
    sides = []
    for place in range(3):
        scores = [[_score(value) for value in runs[place].results["per_client"]] for runs in seeds]  # [seed][silo]
        joined = [statistics.mean(list(each)) for each in zip(*scores, strict=True)]
        sides.append(joined if same_silos else [value for of_seed in scores for value in of_seed])
    return sides


def _score(value: float | None) -> float:
    return math.nan if value is None else value
