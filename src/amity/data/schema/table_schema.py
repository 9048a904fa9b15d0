"""The schema of tables: what each column is, and how it becomes features. The same at all silos, and kept with models.

    number      (x - centre) / scale; a missing value becomes `fill`
    yes/no      1 or 0; a missing value becomes `fill`
    category    one feature per category, and one for all others where there are such in training
    date        days since the first of 2000, scaled as a number; and month and weekday, scaled by constants
    id, constant, empty, text      left out
    unclear     a column that is not the same kind of thing everywhere: to be decided by people

With `missing`, a further feature says where a value was missing. A schema is all that is needed to code a new row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from amity.data.schema.cells import Table, table_of_rows
from amity.data.schema.coding import Misfit, coded, strange_words
from amity.data.schema.column_schema import USED, ColumnJson, ColumnSchema
from amity.errors import InputError, several

VERSION = 1


class SchemaJson(TypedDict):
    """A schema, as facts.json and model files hold it."""

    version: int
    label: str
    columns: list[ColumnJson]


@dataclass(frozen=True)
class TableSchema:
    """All columns of the silos' tables. `transform` codes rows, `features` names what comes out."""

    label: str
    columns: tuple[ColumnSchema, ...]

    @property
    def used(self) -> tuple[ColumnSchema, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.kind in USED)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, in the order in which a model takes them."""
        return tuple(name for column in self.columns for name in column.features)

    def transform(self, rows: Sequence[Mapping[str, Any]]) -> Tensor:
        """Return the features of new rows, each a value by column: text as in a csv file, a number, or None.

        They are equal, bit by bit, to those of the same rows in training.  # [n, d] float32
        """
        return self.coded(table_of_rows(rows, [column.name for column in self.used]))

    def coded(self, table: Table) -> Tensor:
        """Return the features of a table. All cells that do not fit are told at once.  # [n, d] float32"""
        x = np.empty((table.rows, len(self.features)), dtype=np.float32)
        problems, start = list[str](), 0
        for column in self.used:
            end = start + len(column.features)
            try:
                with np.errstate(over="ignore"):
                    x[:, start:end] = np.stack(list(coded(table.columns[column.name], column)), axis=1)
                if (wild := np.asarray(~np.isfinite(x[:, start:end]).all(axis=1))).any():
                    raise Misfit(wild, "must be a number that float32 can hold")
            except Misfit as misfit:
                problems.append(_told(table, column.name, misfit))
            start = end
        if problems:
            raise several(problems)
        return torch.from_numpy(x)

    def strangers(self, table: Table) -> list[str]:
        """Return a line for each column with words that are none of its categories. They are coded as such."""
        lines = list[str]()
        for column in self.used:
            if found := strange_words(table.columns[column.name], column):
                shown = ", ".join(f"{word!r:.40}" for word in list(found)[:3])
                more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
                rows = sum(found.values())
                lines.append(
                    f"{column.name}: none of the categories that the model knows, {shown}{more} "
                    f"({rows:,} row{'s' * (rows != 1)})"
                )
        return lines

    def json(self) -> SchemaJson:
        """Return the schema as files hold it."""
        return {"version": VERSION, "label": self.label, "columns": [column.json() for column in self.columns]}

    def text(self) -> str:
        """Return the schema as one line of JSON: equal schemas have equal texts."""
        return json.dumps(self.json(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _told(table: Table, name: str, misfit: Misfit) -> str:
    """Return one line for all cells of a column that break a rule."""
    rows = np.flatnonzero(misfit.rows)
    example = table.columns[name].example(int(rows[0]))
    more = f" (and {len(rows) - 1:,} rows more)" if len(rows) > 1 else ""
    return (
        f"{table.place(int(rows[0]))}: {name} {misfit.rule}, found {example!r:.60}{more}: correct it, leave the cell "
        f"empty, or change the column's kind in the schema"
    )


def check_features(schema: TableSchema) -> None:
    """Refuse a schema without features, or with two of one name."""
    names = schema.features
    if not names:
        why = "; ".join(f"{column.name}: {column.why or column.kind}" for column in schema.columns[:5])
        raise InputError(f"tables must have a column that can be a feature, found none ({why}): add one")
    twice, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"features must have different names, two columns give {twice!r}: rename one of them")
