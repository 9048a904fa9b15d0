"""Tables of new examples, csv or parquet: the model's columns by name, coded as in training; others as they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from amity.data.formats import csv, parquet, silo_file
from amity.data.memory import MemoryBudget
from amity.data.schema.cells import Numbers, Table, as_number
from amity.data.schema.columns import Columns, spelt
from amity.data.schema.examples import as_features
from amity.data.schema.schema_json import schema_of
from amity.data.schema.table_schema import TableSchema
from amity.errors import InputError, several
from amity.record.contents import ModelFacts

MANY = 50  # names of columns that are shown


def header(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    return [spelt(name) for name in silo_file.header(path)]


def require(path: Path, found: Sequence[str], wanted: Sequence[str], whose: str) -> None:
    """Refuse a table that lacks some of these columns, or has one of them twice; all of them are named."""
    missing = [name for name in wanted if name not in found]
    if missing:
        more = f" and {len(missing) - MANY} more" if len(missing) > MANY else ""
        named = ", ".join(name or "''" for name in missing[:MANY])
        raise InputError(f"{path} must have {whose}, it lacks {named}{more}: add or rename them")
    twice = [name for name, count in Counter(found).items() if count > 1 and name in wanted]
    if twice:
        raise InputError(f"{path} must have different columns, found {', '.join(twice[:MANY])} more than once: rename")


def schema_in(facts: ModelFacts) -> TableSchema | None:
    """Return the schema by which tables became features in training; None: they were taken as numbers."""
    known = facts.get("schema")
    return None if known is None else schema_of(known)


def features_of(
    path: Path, names: Sequence[str], wanted: Sequence[str], schema: TableSchema | None
) -> tuple[Tensor, list[str]]:
    """Return these columns of a table as features [n, d], and what the model cannot know of them.

    All cells that do not fit are told at once.
    """
    places = tuple(names.index(name) for name in wanted)
    columns, budget = Columns(tuple(names), places[0], places), MemoryBudget()
    silo_file.weigh(path, columns, budget)
    table = silo_file.read_table(path, columns, budget, labelled=False)
    return (_as_numbers(table, wanted), []) if schema is None else (schema.coded(table), schema.strangers(table))


def _as_numbers(table: Table, wanted: Sequence[str]) -> Tensor:
    """Return columns of complete numbers as they are."""
    problems, columns = list[str](), list[Numbers]()
    for name in wanted:
        values, words = table.columns[name].mapped(as_number)
        if words.any():
            row = int(words.argmax())
            found = table.columns[name].example(row)
            problems.append(f"{table.place(row)}: {name} must be a number, found {found!r:.60}: correct it")
        elif (gaps := np.isnan(values)).any():
            problems.append(f"{table.place(int(gaps.argmax()))}: {name} is missing: fill it in, or leave the row out")
        columns.append(values)
    if problems:
        raise several(problems)
    return as_features(torch.from_numpy(np.stack(columns, axis=1)), f"{table.where}:")


def words_of(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return these columns of a table as they are written; an empty text where nothing is."""
    if not wanted:
        return {}
    if path.suffix.lower() == ".parquet":
        with parquet.opened(path) as file:
            names = {spelt(name): name for name in file.schema_arrow.names}
            table = file.read(columns=[names[name] for name in wanted])
        return {name: ["" if v is None else str(v) for v in table.column(names[name]).to_pylist()] for name in wanted}
    with csv.rows(path) as rows:
        spelled = [spelt(name) for name in next(rows, [])]
        places = [spelled.index(name) for name in wanted]
        cells = [[row[place].strip() for place in places] for row in rows if row]
    return {name: [row[place] for row in cells] for place, name in enumerate(wanted)}
