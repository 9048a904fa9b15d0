"""Tables in csv: this is where text becomes columns. What cannot be read is refused with file and line, all at once.

A table has a header and one row per example. One column holds the labels; what the others are is decided later (see
`amity.data.schema`). `read` takes tables of complete numbers alone, as they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from amity.data.formats.csv_dialect import Dialect, dialect_of, rows_of
from amity.data.formats.part import Part, part_of_table
from amity.data.memory import MemoryBudget
from amity.data.schema.cells import ColumnReader, Table
from amity.data.schema.columns import Columns
from amity.data.schema.labels import MISSING, Written
from amity.errors import several

if TYPE_CHECKING:
    from _csv import Reader

CELLS = 2**18  # read together
SHOWN = 3  # problems of a kind that are told by line


def header(path: Path) -> list[str]:
    """Return the names of the columns, as the file spells them."""
    with rows(path) as reader:
        return next(reader, [])


def rows(path: Path) -> AbstractContextManager[Reader]:
    """Open a csv file, however it is written, and give its rows; errors on the way name the file."""
    return rows_of(path, dialect_of(path))


def read(path: Path, columns: Columns, budget: MemoryBudget) -> Part:
    """Return the examples of a csv file of complete numbers: features [n, d] as float32, and labels [n] as text."""
    return part_of_table(read_table(path, columns, budget), columns.feature_names)


def read_table(path: Path, columns: Columns, budget: MemoryBudget, *, labelled: bool = True) -> Table:
    """Return the columns of a csv file that are features, and its labels as text; `labelled=False`: it has none."""
    dialect = dialect_of(path)
    reading = _Reading(path, columns, dialect, budget, labelled)
    with rows_of(path, dialect) as reader:
        next(reader, [])  # the header
        block: list[list[str]] = []
        most = max(1, CELLS // len(columns.header))
        for row in reader:
            if not row:
                continue
            if len(row) != len(columns.header):
                reading.short.append(_Short(reader.line_num, len(row)))
                continue
            block.append(row)
            reading.lines.append(reader.line_num)
            if len(block) == most:
                reading.add(block)
                block = []
        if block:
            reading.add(block)
    return reading.table()


class _Short(NamedTuple):
    line: int
    cells: int


class _Reading:
    """Collects the columns of one file."""

    def __init__(self, path: Path, columns: Columns, dialect: Dialect, budget: MemoryBudget, labelled: bool) -> None:
        self._path, self._columns, self._dialect, self._budget = path, columns, dialect, budget
        self._labelled = labelled
        self._readers = [ColumnReader(decimal_comma=dialect.decimal_comma) for _ in columns.features]
        self._labels: list[str] = []
        self._text = 0
        self.lines = array("q")
        self.short: list[_Short] = []

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Add rows of the right length."""
        self._budget.take(8 * len(rows) * (1 + len(self._readers)), self._path)
        columns = list(zip(*rows, strict=True))
        for place, reader in zip(self._columns.features, self._readers, strict=True):
            reader.add(columns[place])
        if self._labelled:
            found = [cell.strip() for cell in columns[self._columns.label]]
            self._budget.take(sum(map(len, found)), self._path)
            self._labels += found
        text = sum(reader.text_bytes for reader in self._readers)
        self._budget.take(text - self._text, self._path)
        self._text = text

    def table(self) -> Table:
        """Return what was read; refuse it with all that is wrong."""
        problems = [*self._short(), *self._unlabelled(), *self._signs()]
        if not problems and not self.lines:
            problems = [f"{self._path} must have one row per example below its header, found none: add some"]
        if problems:
            raise several(problems)
        names = self._columns.feature_names
        columns = {name: reader.column() for name, reader in zip(names, self._readers, strict=True)}
        notes = (f"{self._path}: {self._dialect.words}",) if self._dialect.words else ()
        return Table(str(self._path), columns, self._words(), np.frombuffer(self.lines, dtype=np.int64), notes)

    def _words(self) -> Written:
        """Return labels as a numpy array of text, in which each takes as many bytes as the longest."""
        self._budget.take(4 * len(self._labels) * max(map(len, self._labels), default=0), self._path)
        return np.array(self._labels, dtype=str)

    def _short(self) -> list[str]:
        count = len(self._columns.header)
        told = [
            f"{self._path}, line {line}: must have {count} values, found {cells}: complete or drop the row"
            for line, cells in self.short[:SHOWN]
        ]
        return told + _more(self._path, len(self.short), "rows of another length")

    def _unlabelled(self) -> list[str]:
        name = self._columns.label_name
        bare = [row for row, label in enumerate(self._labels) if label.lower() in MISSING]
        told = [
            f"{self._path}, line {self.lines[row]}: {name} is missing ({self._labels[row]!r}), and it is the label: "
            "fill it in or drop the row"
            for row in bare[:SHOWN]
        ]
        return told + _more(self._path, len(bare), "rows without a label")

    def _signs(self) -> list[str]:
        names = zip(self._columns.feature_names, self._readers, strict=True)
        return [
            f"{self._path}: {name} must have one decimal sign, found numbers with commas and with points: "
            "write all with one of them"
            for name, reader in names
            if reader.commas and reader.dotted
        ]


def _more(path: Path, count: int, what: str) -> list[str]:
    return [f"{path} has {count - SHOWN:,} {what} more"] if count > SHOWN else []
