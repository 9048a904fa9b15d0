"""The request behind a figure: an output, and the results that it is made from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amity.config.options import unknown
from amity.errors import InputError
from amity.papers.figures.style import Pen, pens
from amity.papers.outcome import Outcome
from amity.papers.results import Results
from amity.papers.spec import Experiment, Output
from amity.papers.spec.vocabulary import Axis


@dataclass(frozen=True)
class View:
    """An output's rows and columns, with their names and pens."""

    output: Output
    results: Results
    data_dir: str | None = None

    @property
    def experiment(self) -> Experiment:
        return self.results.experiment

    @property
    def rows(self) -> list[str]:
        """The output's rows of which something is recorded."""
        return self._selected("rows", self.output.rows, self.results.rows)

    @property
    def columns(self) -> list[str]:
        """The output's columns in which something is recorded."""
        return self._selected("columns", self.output.columns, self.results.columns)

    @property
    def all_columns(self) -> list[str]:
        """The output's columns, recorded or not."""
        return self._selected("columns", self.output.columns, self.experiment.columns(self.results.size))

    def _selected(self, axis: Axis, wanted: Collection[str], there: list[str]) -> list[str]:
        """Return those of the wanted rows or columns that are there; all that are there if none is named."""
        for name in wanted:
            self.known(axis, name)
        return [name for name in wanted if name in there] or ([] if wanted else there)

    def known(self, axis: Axis, name: str) -> str:
        """Return the name of a row or column; refuse one that the experiment does not have."""
        if name not in self.experiment.content[axis]:
            raise unknown(f"{axis[:-1]} in output {self.output.name}:", name, self.experiment.content[axis])
        return name

    def first_outcomes(self) -> Iterator[tuple[str, str, Outcome]]:
        """Yield the first seed of every row and column that is recorded: figures of single runs show it."""
        for row in self.rows:
            for column in self.columns:
                outcome = self.results.first(row, column)
                if outcome is not None:
                    yield row, column, outcome

    def row_label(self, name: str) -> str:
        return self.experiment.label("rows", name)

    def column_label(self, name: str) -> str:
        return self.experiment.label("columns", name)

    def cell_label(self, row: str, column: str) -> str:
        """Return the title of a panel that shows a single run."""
        return f"{self.row_label(row)}, {self.column_label(column)}"

    @cached_property
    def row_pens(self) -> dict[str, Pen]:
        return pens(self.experiment.content["rows"])

    @cached_property
    def column_pens(self) -> dict[str, Pen]:
        return pens(self.experiment.content["columns"])

    def option(self, name: str, default: Any) -> Any:
        """Return an option of the output."""
        return self.output.options.get(name, default)

    def one_of(self, name: str, allowed: Iterable[str]) -> str:
        """Return an option that must be one of a few words; the first of them unless given."""
        allowed = list(allowed)
        value = str(self.option(name, allowed[0]))
        if value not in allowed:
            raise unknown(f"{name} in output {self.output.name}:", value, allowed)
        return value

    def whole_number(self, name: str, default: int, least: int) -> int:
        """Return an option that must be a whole number, not below `least`."""
        value = self.option(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            rule = f"{name} in output {self.output.name} must be a whole number >= {least}"
            raise InputError(f"{rule}, got {value!r}: try {name} = {max(default, least)}")
        return value
