"""Tables as they were read: each cell is a number, a word or missing. What a column means is decided later.

Numbers are kept as float64, words once each with a place per row, so that a table takes about as much memory as its
numbers do. Words are compared without blanks at their ends and in lower case: Yes and yes are one.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.data.schema.columns import spelt
from amity.data.schema.labels import Written, is_number

MARKS = ("", "?", "-", "na", "n/a", "nan", "null")
"""Cells that stand for a missing value, in upper or lower case."""

NUMBER, MISSING = -1, -2  # places of cells that hold no word

_PLAIN = re.compile(r"[0-9.eE+\-\0]*")  # cells that float() reads as people mean them, joined
_CODE = re.compile(r"(?:^|\0)[+-]?0[0-9]")  # 007 is a code, and 0.7 is not
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")  # 1,5 where semicolons or tabs stand between cells

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32]


class Column(NamedTuple):
    """The cells of one column."""

    numbers: Numbers  # [n], NaN where a cell holds no number
    places: Places | None = None  # [n], of the word, or NUMBER or MISSING; None: no cell holds a word
    words: tuple[str, ...] = ()  # the different words

    @property
    def missing(self) -> Flags:
        """The rows without a value."""
        return np.isnan(self.numbers) if self.places is None else np.asarray(self.places == MISSING)

    def take(self, rows: Flags) -> Column:
        """Return the cells of some rows; words that none of them has stay in the list."""
        return Column(self.numbers[rows], None if self.places is None else self.places[rows], self.words)

    def used(self) -> dict[str, int]:
        """Return the words of these rows with the number of rows that have them."""
        if self.places is None:
            return {}
        counts = np.bincount(self.places[self.places >= 0], minlength=len(self.words))
        return {word: int(count) for word, count in zip(self.words, counts, strict=True) if count}

    def mapped(self, value: Callable[[str], float | None]) -> tuple[Numbers, Flags]:
        """Return the column with a number for each word, NaN where a cell is missing; and the rows without a number."""
        if self.places is None:
            return self.numbers, np.zeros(len(self.numbers), dtype=bool)
        found = [value(word) for word in self.words]
        of_word = np.array([np.nan if one is None else one for one in found], dtype=np.float64)
        unknown = np.array([one is None for one in found], dtype=bool)
        held = self.places >= 0
        numbers, bad = self.numbers.copy(), np.zeros(len(held), dtype=bool)
        numbers[held], bad[held] = of_word[self.places[held]], unknown[self.places[held]]
        return numbers, bad

    def example(self, row: int) -> str:
        """Return what one cell holds, as text."""
        if self.places is not None and self.places[row] >= 0:
            return self.words[int(self.places[row])]
        return "" if np.isnan(self.numbers[row]) else number_text(float(self.numbers[row]))


class Table(NamedTuple):
    """The rows of one file: its features by name, and its labels."""

    where: str  # the file
    columns: Mapping[str, Column]
    labels: Written  # [n]; empty where a table has none
    lines: npt.NDArray[np.int64] | None = None  # [n] of a csv file; None: rows are counted from 0
    notes: tuple[str, ...] = ()  # how the file was read, where that is not the usual way

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())).numbers) if self.columns else len(self.labels)

    def take(self, rows: Flags) -> Table:
        """Return the table of some rows."""
        cells = {name: column.take(rows) for name, column in self.columns.items()}
        return Table(self.where, cells, self.labels[rows], None if self.lines is None else self.lines[rows], self.notes)

    def place(self, row: int) -> str:
        """Return where a row stands, for a message."""
        return f"{self.where}, row {row}" if self.lines is None else f"{self.where}, line {self.lines[row]}"


def number_text(value: float) -> str:
    """Return a number as the shortest text, so that 1 and 1.0 are one category."""
    return np.format_float_positional(value, trim="-")


def word_of(text: str) -> str:
    """Return a word in the form in which words are compared."""
    return spelt(text).lower()


def category_of(text: str) -> str:
    """Return a category in the form in which cells are compared with it: a word, or a number as text."""
    number = None if _CODE.match(text) else as_number(text)
    return word_of(text) if number is None else number_text(number)


def as_number(word: str) -> float | None:
    """Return the number that a word is after all, such as 007; None for others."""
    return float(word) if is_number(word) else None


class ColumnReader:
    """Collects the cells of one column, a block of texts at a time."""

    def __init__(self, *, decimal_comma: bool = False) -> None:
        """`decimal_comma`: 1,5 is a number, as in files with semicolons."""
        self._comma = decimal_comma
        self._numbers = array("d")
        self._places: array[int] | None = None
        self._known: dict[str, tuple[float, int]] = {}  # raw cell -> number and place
        self._words: dict[str, int] = {}
        self.dotted = self.commas = False  # which decimal signs were met
        self.text_bytes = 0  # of the words that are kept

    def add(self, cells: Sequence[str]) -> None:
        """Add the cells of some rows."""
        joined = "\0".join(cells)
        if _PLAIN.fullmatch(joined) and not _CODE.search(joined) and self._add_numbers(cells):
            self.dotted = self.dotted or "." in joined
            return
        if self._places is None:
            self._places = array("i", [NUMBER]) * len(self._numbers)
        pairs = [self._known.get(cell) or self._met(cell) for cell in cells]
        self._numbers.extend([number for number, _ in pairs])
        self._places.extend([place for _, place in pairs])

    def add_coded(self, words: Sequence[str], places: npt.NDArray[np.int64]) -> None:
        """Add rows by the place of their cell in a list; -1 for a missing one."""
        if self._places is None:
            self._places = array("i", [NUMBER]) * len(self._numbers)
        pairs = [*(self._known.get(word) or self._met(word) for word in words), (np.nan, MISSING)]
        self._numbers.frombytes(np.array([number for number, _ in pairs])[places].tobytes())
        self._places.frombytes(np.array([place for _, place in pairs], dtype=np.int32)[places].tobytes())

    def _add_numbers(self, cells: Sequence[str]) -> bool:
        try:
            found = list(map(float, cells))
        except ValueError:  # an empty cell, 1.2.3 or --
            return False
        if not np.isfinite(found).all():
            return False
        self._numbers.extend(found)
        if self._places is not None:
            self._places.extend([NUMBER] * len(found))
        return True

    def _met(self, raw: str) -> tuple[float, int]:
        """Return number and place of a cell that is new; words are remembered, numbers are not."""
        if _PLAIN.fullmatch(cell := raw.strip()) and not _CODE.match(cell):
            try:
                number = float(cell)
            except ValueError:  # 1.2.3 or --
                number = math.nan
            if math.isfinite(number):
                self.dotted = self.dotted or "." in cell
                return number, NUMBER
        if cell.lower() in MARKS:
            self._known[raw] = found = (math.nan, MISSING)
            return found
        if self._comma and _COMMA.fullmatch(cell):
            self.commas = True
            return float(cell.replace(",", ".")), NUMBER
        self._known[raw] = found = (math.nan, self._words.setdefault(word_of(cell), len(self._words)))
        self.text_bytes += 2 * len(raw) + 200
        return found

    def column(self) -> Column:
        """Return what was collected."""
        numbers = np.frombuffer(self._numbers) if self._numbers else np.empty(0)
        if not self._words:
            return Column(numbers)
        return Column(numbers, np.frombuffer(self._places or b"", dtype=np.int32), tuple(self._words))


def table_of_rows(rows: Sequence[Mapping[str, Any]], names: Iterable[str], where: str = "the rows") -> Table:
    """Return rows as a table with these columns: values are text as in a csv file, numbers, True, False or None.

    A column that a row lacks is missing there.
    """
    columns = {}
    for name in names:
        reader = ColumnReader()
        reader.add([_text(row.get(name)) for row in rows])
        columns[name] = reader.column()
    return Table(where, columns, np.empty(0, dtype=str))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return repr(float(value)) if isinstance(value, (int, float, np.number)) else str(value)
