"""The results of one run with several seeds, as Python users get them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amity import record, statistics
from amity.errors import InputError
from amity.report.view_worth import worth_beside
from amity.statistics import Seeds
from amity.worth.contents import WorthView

if TYPE_CHECKING:
    from amity.result import Result


@dataclass(frozen=True, eq=False)
class Repeats:
    """The results of a run that was repeated with several seeds: each one, and mean and deviation over all.

    >>> run = amity.Run("separate", data="digits", clients=2, rounds=1, epochs=1)
    >>> repeats = amity.run(run, seeds=[0, 1])
    >>> list(repeats.results), repeats[1].summary["seed"]
    ([0, 1], 1)
    """

    results: dict[int, Result]  # by seed

    def __getitem__(self, seed: int) -> Result:
        """Return the result of one seed."""
        if seed not in self.results:
            raise InputError(f"the seeds are {', '.join(map(str, self.results))}, got {seed!r}: take one of these")
        return self.results[seed]

    @property
    def best(self) -> Seeds:
        """The mean test score of the delivered models over seeds, by the run's metric: of accuracies, in percent."""
        return self._over(lambda result: result.best)

    @property
    def bmta(self) -> Seeds:
        """The best mean test accuracy over rounds, which chooses on test data, as papers report it, over seeds."""
        return self._over(lambda result: result.bmta)

    @property
    def scores(self) -> dict[str, Seeds]:
        """Each silo's score with the model that is delivered, over seeds.

        Of silos that every seed deals anew, a name stands for another silo in each: read their mean alone.
        """
        names = next(iter(self.results.values())).scores
        return {name: self._over(lambda result, name=name: result.scores[name]) for name in names}  # type: ignore[misc]

    @property
    def summary(self) -> record.MethodResults:
        """Every number over seeds, as `results.json` has it."""
        return record.over_seeds([result.summary for result in self.results.values()])

    @property
    def worth(self) -> WorthView:
        """Whether joining was worth it, over all seeds; needs runs with `alone=True`."""
        results = self.results.values()
        alone = [None if one.alone is None else one.alone.record for one in results]
        return worth_beside(*(one.record for one in results), *alone)

    def _over(self, number: Callable[[Result], float]) -> Seeds:
        return statistics.over_seeds([number(result) for result in self.results.values()])

    def __str__(self) -> str:
        one = next(iter(self.results.values()))
        first, metric = one.summary, one.metric
        head = f"{first['method']} on {first['data']}, {first['setting']}: {len(self.results)} seeds"
        lines = [f"  seed {seed}: {metric.text(result.best)}" for seed, result in self.results.items()]
        mean = f"  mean test {metric.title} of the delivered models {self.best} {metric.unit}".rstrip()
        return "\n".join([head, mean, *lines])

    __repr__ = __str__
