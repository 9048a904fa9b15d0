"""The outcomes of an experiment, by row and column, and what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amity.learn.metrics import TITLES
from amity.papers.comparison import Comparison, compare
from amity.papers.outcome import Outcome
from amity.papers.spec import Experiment, Measure, Output
from amity.trials import Chosen


@dataclass(frozen=True, eq=False)
class Results:
    """The outcomes of an experiment at one size, by row and column, then by seed."""

    experiment: Experiment
    size: str
    outcomes: Mapping[tuple[str, str], list[Outcome]]
    chosen: Mapping[tuple[str, str], Chosen[Any]]

    def seeds(self, row: str, column: str) -> list[Outcome]:
        """Return the outcomes of a cell, one per seed; none where nothing is recorded."""
        return self.outcomes.get((row, column), [])

    def first(self, row: str, column: str) -> Outcome | None:
        """Return the outcome of the first seed, which figures of single runs show; None where nothing is recorded."""
        return next(iter(self.seeds(row, column)), None)

    @property
    def score(self) -> str:
        """The name of the main score in tables and figures."""
        found = {outcome.score for outcomes in self.outcomes.values() for outcome in outcomes}
        return TITLES[found.pop()] if len(found) == 1 else "score"

    @property
    def rows(self) -> list[str]:
        """The rows of which something is recorded."""
        return [row for row in self.experiment.rows(self.size) if any(key[0] == row for key in self.outcomes)]

    @property
    def columns(self) -> list[str]:
        """The columns in which something is recorded."""
        columns = self.experiment.columns(self.size)
        return [column for column in columns if any(key[1] == column for key in self.outcomes)]

    def axes(self, output: Output) -> tuple[list[str], list[str]]:
        """Return the recorded rows and columns that an output shows."""
        rows = [row for row in self.rows if not output.rows or row in output.rows]
        columns = [column for column in self.columns if not output.columns or column in output.columns]
        return rows, columns

    def same_seed_pairs(self, one: str, other: str, column: str) -> list[tuple[Outcome, Outcome]]:
        """Return two rows' outcomes side by side, for every seed that both have."""
        of_seed = {outcome.seed: outcome for outcome in self.seeds(other, column)}
        return [(outcome, of_seed[outcome.seed]) for outcome in self.seeds(one, column) if outcome.seed in of_seed]

    def compare(
        self, one: str, other: str, column: str, than: str = "", measure: Measure = "accuracy"
    ) -> Comparison | None:
        """Compare two rows in a column, or the second one in column `than`; None where either is not recorded."""
        return compare(self.seeds(one, column), self.seeds(other, than or column), measure)

    def gains(self, row: str, against: str, column: str) -> list[tuple[Outcome, list[float]]]:
        """Return what each silo gains over another row with the delivered models, beside the outcome of each seed.

        Rows are compared at equal local work where that was recorded: one that trains once more for its evaluation is
        taken a round earlier.
        """
        found = []
        for mine, other in self.same_seed_pairs(row, against, column):
            ahead = mine.trainings_ahead - other.trainings_ahead
            ours = (mine.delivered_before(ahead) if ahead > 0 else None) or mine.delivered
            theirs = (other.delivered_before(-ahead) if ahead < 0 else None) or other.delivered
            found.append((mine, [mine.metric.gain(x, y) for x, y in zip(ours, theirs, strict=True)]))
        return found

    def trouble(self, row: str, column: str) -> str:
        """Return why a cell's runs are no fair example of their method; empty if they are one."""
        runs = self.seeds(row, column)
        said = [(run, run.trouble) for run in runs if run.trouble]
        if not said:
            return ""
        seeds = f" in {len(said)} of {len(runs)} seeds" if len(runs) > 1 else ""
        return f"{self.experiment.run_label(row, column)}: {said[0][1]}{seeds}"
