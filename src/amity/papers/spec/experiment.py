"""An experiment, with its outputs and claims, as its checked file describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from amity.config.options import unknown
from amity.config.run import Run
from amity.papers.spec.cells import Cell, choice_of, merged_options, run_of
from amity.papers.spec.vocabulary import BEST_OF, OUTPUT_KEYS, SIZE_KEYS, Axis, Measure


@dataclass(frozen=True)
class Output:
    """A table or figure to make of the results."""

    kind: str
    name: str  # of the files
    rows: tuple[str, ...] = ()  # all where none is named
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # those that this kind has besides


@dataclass(frozen=True)
class Claim:
    """A statement of a paper about the order of its methods."""

    text: str
    above: tuple[str, ...]  # rows that are better
    below: tuple[str, ...]  # than each of these
    columns: tuple[str, ...] = ()  # all where none is named
    within: float = 0.0  # better, or worse by less than this many points
    than: str = ""  # the column that those below are of, where it is another one
    p: float = 1.0  # better, and by a test with at most this p-value
    measure: Measure = "accuracy"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper."""

    name: str  # paper/what, as `amity reproduce` takes it
    content: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.content["id"])

    @property
    def title(self) -> str:
        return str(self.content["title"])

    @property
    def paper(self) -> str:
        return str(self.content["paper"])

    @property
    def ours(self) -> bool:
        """True where no paper has this experiment."""
        return self.paper == "ours"

    @property
    def expect(self) -> str:
        return str(self.content.get("expect", ""))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(
            Claim(
                str(table["text"]),
                tuple(table["above"]),
                tuple(table["below"]),
                tuple(table.get("columns", ())),
                float(table.get("within", 0.0)),
                str(table.get("than", "")),
                float(table.get("p", 1.0)),
                table.get("measure", "accuracy"),
            )
            for table in self.content.get("claims", [])
        )

    @property
    def sizes(self) -> list[str]:
        """The sizes at which it can be run, in the order of its file."""
        return list(self.content["sizes"])

    def label(self, axis: Axis, name: str) -> str:
        """Return the name of a row or column in tables and figures."""
        return str(self.content[axis][name].get("label", name))

    def run_label(self, row: str, column: str) -> str:
        """Return the name of a cell's runs in a sentence."""
        return f"{self.label('rows', row)} on {self.label('columns', column)}"

    def value(self, axis: Axis, name: str) -> Any:
        """Return the value of an option that a row or column of a sweep stands for."""
        return self.content[axis][name].get("value", name)

    def reported(self, row: str, column: str) -> float | str | None:
        """Return what the paper reports for a cell; None where it reports nothing."""
        value = self.content.get("paper_values", {}).get(row, {}).get(column)
        return value if value is None or isinstance(value, str) else float(value)

    def size(self, name: str) -> Mapping[str, Any]:
        """Return the table of a size; refuse a size that the experiment does not have."""
        if name not in self.content["sizes"]:
            raise unknown(f"size of {self.name}:", name, list(self.content["sizes"]))
        table: Mapping[str, Any] = self.content["sizes"][name]
        return table

    def note(self, size: str) -> str:
        """Return what was scaled down, and whatever else a reader must know of a size."""
        return str(self.size(size).get("note", ""))

    def rows(self, size: str) -> list[str]:
        return self._entries("rows", size)

    def columns(self, size: str) -> list[str]:
        return self._entries("columns", size)

    def _entries(self, axis: Axis, size: str) -> list[str]:
        """Return the rows or columns that a size runs, in its order."""
        named = self.size(size).get(axis, self.content.get(axis, {}))
        wanted = self.content.get(f"only_{axis}", named)
        return [entry for entry in named if entry in wanted]

    def cells(self, size: str) -> list[Cell]:
        """Return all cells of a size, column by column, so that runs on the same data follow each other."""
        rows = [row for row in self.rows(size) if not self.best_of(row)]
        return [self.cell(size, row, column) for column in self.columns(size) for row in rows]

    def best_of(self, row: str) -> tuple[str, ...]:
        """Return the rows that this one is the best of; none where it has runs of its own."""
        return tuple(self.content["rows"][row].get(BEST_OF, ()))

    def run_for_data(self, size: str, column: str) -> Run:
        """Return a run with a column's data and no method of its own: an experiment may have no rows."""
        own, in_column = _size_options(self.size(size), column)
        return run_of(merged_options(self.content.get("run", {}), self.content["columns"][column], own, in_column), 0)

    def cell(self, size: str, row: str, column: str) -> Cell:
        """Return the runs of one row in one column at a size."""
        content, scale = self.content, self.size(size)
        of_row = scale.get("of", {}).get(row, {})
        options = merged_options(
            {"method": row},
            content.get("run", {}),
            content["columns"][column],
            content["rows"][row],
            content.get("cells", {}).get(row, {}).get(column, {}),
            *_size_options(scale, column),
            {key: value for key, value in of_row.items() if key != "in"},
            of_row.get("in", {}).get(column, {}),
        )
        return Cell(row, column, options, int(options.get("seeds", 1)), choice_of(options))

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        stem = self.name.rpartition("/")[2]
        made = []
        for table in self.content.get("outputs", [{"kind": "table"}]):
            extra = {key: value for key, value in table.items() if key not in OUTPUT_KEYS}
            name = table.get("name", stem if table["kind"] == "table" else f"{stem}-{table['kind']}")
            made.append(
                Output(table["kind"], name, tuple(table.get("rows", ())), tuple(table.get("columns", ())), extra)
            )
        return tuple(made)


def _size_options(size: Mapping[str, Any], column: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a size's options for everything, and those for one column."""
    own = {key: value for key, value in size.items() if key not in SIZE_KEYS}
    return own, size.get("in", {}).get(column, {})
