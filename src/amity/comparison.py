"""Several runs side by side, as Python users get them back."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from amity import record
from amity.repeats import Repeats
from amity.report import compare_table, table_width, write_report
from amity.report.series import series_of
from amity.report.table import p_values
from amity.report.view_worth import worth_of
from amity.result import Result
from amity.statistics import RankTest
from amity.worth.contents import WorthView


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of several methods on one federation, with one seed or several.

    >>> few = {"data": "digits", "clients": 2, "rounds": 1, "epochs": 1}
    >>> both = amity.compare([amity.Run("separate", **few), amity.Run("fedavg", **few)])
    >>> both["fedavg"].summary["method"], len(both.runs)
    ('fedavg', 2)
    """

    runs: Sequence[Result]

    @cached_property
    def results(self) -> dict[str, Result | Repeats]:
        """By method: its result, or its results over seeds."""
        found: dict[str, dict[int, Result]] = {}
        for result in self.runs:
            found.setdefault(result.summary["method"], {})[result.summary["seed"]] = result
        return {name: Repeats(each) if len(each) > 1 else next(iter(each.values())) for name, each in found.items()}

    def __getitem__(self, method: str) -> Result | Repeats:
        """Return the result of one method, or its results over seeds."""
        return self.results[method]

    @property
    def records(self) -> list[record.Record]:
        """What was recorded of each run."""
        return [result.record for result in self.runs]

    @property
    def tests(self) -> dict[str, RankTest | None] | None:
        """By method: the paired test against the best one over silos and seeds; None where there is nothing to test."""
        found = p_values(self.records)
        names = [one.name for one in series_of(self.records)]
        return None if found is None else dict(zip(names, found, strict=True))

    @property
    def worth(self) -> list[WorthView]:
        """Whether joining was worth it, by method, the one that a report leads with first; empty without `separate`."""
        return worth_of(series_of(self.records))[0]

    def write(self, folder: Path, *, report: bool = True) -> Path | None:
        """Write `results.json`, for programs, and `report.html`, for people; where that lies comes back."""
        page = write_report(self.records, folder / "report.html") if report else None
        if len(self.runs) > 1:
            summaries = {one.name: [run.results for run in one.runs] for one in series_of(self.records)}
            record.write_results(folder, summaries, self.tests, self.worth)
        return page

    def __str__(self) -> str:
        table = compare_table(self.records)
        text = io.StringIO()
        Console(file=text, width=max(100, table_width(table))).print(table)
        return text.getvalue().rstrip()

    __repr__ = __str__
