"""One silo's file: npz, csv or parquet, read by the format that its suffix names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amity.data.formats import csv, npz, parquet
from amity.data.formats.part import Part
from amity.data.memory import NUMBER, MemoryBudget
from amity.data.schema.cells import Table
from amity.data.schema.columns import Columns

TABLES: dict[str, Callable[[Path, Columns, MemoryBudget], Part]] = {".csv": csv.read, ".parquet": parquet.read}
SUFFIXES = (".npz", *TABLES)


def header(path: Path) -> list[str]:
    """Return the names of a table's columns, as the file spells them."""
    return parquet.header(path) if path.suffix.lower() == ".parquet" else csv.header(path)


def weigh(path: Path, columns: Columns | None, budget: MemoryBudget) -> None:
    """Take the memory that a file says it needs; a csv file says nothing, and takes it row by row when it is read."""
    if columns is None:
        npz.weigh(path, budget, least=NUMBER)
    elif path.suffix.lower() == ".parquet":
        parquet.weigh(path, columns, budget)


def read(path: Path, columns: Columns | None, budget: MemoryBudget) -> list[Part]:
    """Return the examples of a file that was weighed, or its train and test part; only a table has `columns`."""
    if columns is None:
        return npz.parts(path)
    return [TABLES[path.suffix.lower()](path, columns, budget)]


def read_table(path: Path, columns: Columns, budget: MemoryBudget, *, labelled: bool = True) -> Table:
    """Return the columns of a table that was weighed, whatever they hold; `labelled=False`: it has no labels."""
    read = parquet.read_table if path.suffix.lower() == ".parquet" else csv.read_table
    return read(path, columns, budget, labelled=labelled)
