"""What a figure is asked to show: an output and the results that it is made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amity.errors import InputError
from amity.experiments.figures.paper import Pen, pens
from amity.experiments.outcome import Outcome
from amity.experiments.reproduce import Results
from amity.experiments.spec import Experiment, Output
from amity.options import unknown


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
        return self._some("rows", self.output.rows, self.results.rows)

    @property
    def columns(self) -> list[str]:
        return self._some("columns", self.output.columns, self.results.columns)

    @property
    def all_columns(self) -> list[str]:
        """With those of which nothing is recorded."""
        return self._some("columns", self.output.columns, self.experiment.columns(self.results.size))

    def _some(self, axis: str, wanted: Iterable[str], there: list[str]) -> list[str]:
        for name in wanted:
            self.known(axis, name)
        return [name for name in wanted if name in there] or ([] if wanted else there)

    def known(self, axis: str, name: str) -> str:
        """The name of a row or column, checked."""
        if name not in self.experiment.content[axis]:
            raise unknown(f"{axis[:-1]} in output {self.output.name}:", name, self.experiment.content[axis])
        return name

    def firsts(self) -> Iterator[tuple[str, str, Outcome]]:
        """The first seed of every row and column that is recorded: figures of single runs show it."""
        for row in self.rows:
            for column in self.columns:
                outcome = self.results.first(row, column)
                if outcome is not None:
                    yield row, column, outcome

    def row(self, name: str) -> str:
        return self.experiment.label("rows", name)

    def column(self, name: str) -> str:
        return self.experiment.label("columns", name)

    def cell(self, row: str, column: str) -> str:
        """What a panel of a single run is called."""
        return f"{self.row(row)}, {self.column(column)}"

    @cached_property
    def row_pens(self) -> dict[str, Pen]:
        return pens(self.experiment.content["rows"])

    @cached_property
    def column_pens(self) -> dict[str, Pen]:
        return pens(self.experiment.content["columns"])

    def option(self, name: str, default: Any) -> Any:
        return self.output.options.get(name, default)

    def one_of(self, name: str, allowed: Iterable[str]) -> str:
        """An option that names one of a few things; the first unless given."""
        allowed = list(allowed)
        value = str(self.option(name, allowed[0]))
        if value not in allowed:
            raise unknown(f"{name} in output {self.output.name}:", value, allowed)
        return value

    def whole(self, name: str, default: int, least: int) -> int:
        """An option that is a whole number."""
        value = self.option(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            rule = f"{name} in output {self.output.name} must be a whole number >= {least}"
            raise InputError(f"{rule}, got {value!r}: try {name} = {max(default, least)}")
        return value
