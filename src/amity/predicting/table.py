"""Tables of new examples, csv or parquet: some columns as numbers, others as they are written.

All that is wrong with a table is said in one line, not one cell at a time.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.data.formats import csv, parquet, silo_file
from amity.data.memory import MemoryBudget
from amity.data.schema.columns import SHOWN, spelt
from amity.data.schema.labels import MISSING, is_number
from amity.errors import InputError

MANY = 50  # names of columns that are shown


class Table(NamedTuple):
    """Rows of a table."""

    numbers: npt.NDArray[np.float64]  # [n, columns]
    words: dict[str, list[str]]  # by column; an empty text where nothing is written


def header(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    return [spelt(name) for name in silo_file.header(path)]


def require(path: Path, found: Sequence[str], wanted: Sequence[str], whose: str) -> None:
    """Refuse a table that lacks some of these columns, or has one of them twice; all of them are named."""
    missing = [name for name in wanted if name not in found]
    if missing:
        named = ", ".join(missing[:MANY]) + (f" and {len(missing) - MANY} more" if len(missing) > MANY else "")
        raise InputError(f"{path} must have {whose}, it lacks {named}: add or rename them")
    twice = [name for name, count in Counter(found).items() if count > 1 and name in wanted]
    if twice:
        raise InputError(f"{path} must have different columns, found {', '.join(twice[:MANY])} more than once: rename")


def read_table(path: Path, numbers: Sequence[str], words: Sequence[str]) -> Table:
    """Return the rows of a table that has these columns: some as finite numbers, some as they are written."""
    read = _read_parquet if path.suffix.lower() == ".parquet" else _read_csv
    problems: list[str] = []
    table = read(path, numbers, words, problems)
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise InputError(f"{path} must hold numbers to predict from: {'; '.join(problems[:SHOWN])}{more}: mend these")
    count = len(table.numbers) if numbers else len(next(iter(table.words.values()), []))
    if not count:
        raise InputError(f"{path} must have one row per example below its header, found none: add some")
    return table


def _read_csv(path: Path, numbers: Sequence[str], words: Sequence[str], problems: list[str]) -> Table:
    values, texts, budget = array("d"), {name: list[str]() for name in words}, MemoryBudget()
    with csv.rows(path) as rows:
        names = [spelt(name) for name in next(rows, [])]
        places = [(name, names.index(name)) for name in numbers]
        others = [(texts[name], names.index(name)) for name in words]
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                problems.append(f"line {rows.line_num} has {len(row)} values for {len(names)} columns")
                continue
            budget.take(values.itemsize * len(places) + sum(len(row[place]) for _, place in others), path)
            values.extend(_number(row[place], f"line {rows.line_num}, {name}", problems) for name, place in places)
            for column, place in others:
                column.append(row[place].strip())
    return Table(np.frombuffer(values, dtype=np.float64).reshape(-1, max(1, len(places))), texts)


def _number(cell: str, where: str, problems: list[str]) -> float:
    """Return the number in a cell; note what is wrong with it, if it is none."""
    text = cell.strip()
    if text.lower() in MISSING:
        problems.append(f"{where} is missing")
    elif not is_number(text) or not math.isfinite(value := float(text)):
        problems.append(f"{where} is {text[:40]!r}, not a number")
    else:
        return value
    return math.nan


def _read_parquet(path: Path, numbers: Sequence[str], words: Sequence[str], problems: list[str]) -> Table:
    with parquet.opened(path) as file:
        names = {spelt(name): name for name in file.schema_arrow.names}
        rows, budget = file.metadata.num_rows, MemoryBudget()
        budget.take(rows * parquet.BYTES * len(numbers), path)
        table = file.read(columns=[names[name] for name in dict.fromkeys((*numbers, *words))])
    columns = [_column(name, table.column(names[name]), problems) for name in numbers]
    found = np.stack(columns, axis=1) if columns else np.empty((rows, 0))
    texts = {name: ["" if v is None else str(v) for v in table.column(names[name]).to_pylist()] for name in words}
    return Table(found, texts)


def _column(name: str, column: Any, problems: list[str]) -> npt.NDArray[np.float64]:
    """Return the numbers of a parquet column; note what is wrong with it."""
    if not parquet.is_number(column.type):
        problems.append(f"{name} is {column.type}, not numbers")
        return np.full(len(column), math.nan)
    values = column.to_numpy().astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        problems.append(f"{name} is missing in row {bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else ""))
    return np.asarray(values)
