"""The columns of all tables of a folder, chosen from headers alone: one label and the same features everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from amity.data.formats import silo_file
from amity.data.own.problems import Problems
from amity.data.schema import columns
from amity.data.schema.agreement import Scaling
from amity.data.schema.table_schema import TableSchema
from amity.errors import InputError


class TableOptions(NamedTuple):
    """The user's wishes for tables."""

    wanted: columns.Wanted = columns.Wanted()
    schema: TableSchema | None = None  # None: the silos agree on one
    scaling: Scaling = "auto"


def chosen_columns(
    paths: Sequence[Path], folder: Path, options: TableOptions, problems: Problems
) -> dict[Path, columns.Columns]:
    """Return the columns of every table whose header is fine; the others are problems."""
    wanted = options.wanted
    headers = problems.each(paths, silo_file.header)
    with problems.collecting():
        columns.check_dropped(str(folder), headers.values(), wanted)
    if options.schema is not None:
        return _by_schema(headers, options.schema, wanted, problems)
    chosen: dict[Path, columns.Columns] = {}
    wrong: dict[str, str] = {}
    for path, header in headers.items():
        try:
            chosen[path] = columns.choose(header, wanted)
        except InputError as error:
            wrong[str(path)] = str(error)
    different = columns.same({str(path): table for path, table in chosen.items()})
    for line in columns.grouped(wrong | different):
        problems.add(line)
    return {path: table for path, table in chosen.items() if str(path) not in different}


def _by_schema(
    headers: Mapping[Path, Sequence[str]], schema: TableSchema, wanted: columns.Wanted, problems: Problems
) -> dict[Path, columns.Columns]:
    """Return the columns that a schema names; others are not even looked at."""
    used = [column.name for column in schema.used]
    if wanted.label not in (None, schema.label):
        problems.add(f"the label of the schema is {schema.label!r}, got --label {wanted.label}: leave it out")
        return {}
    chosen: dict[Path, columns.Columns] = {}
    for path, header in headers.items():
        names = tuple(map(columns.spelt, header))
        if lacking := [name for name in (schema.label, *used) if name not in names]:
            todo = next(filter(None, (columns.alike(name, names) for name in lacking)), "add them")
            problems.add(f"{path} must have the columns of the schema, lacks {columns.listed(lacking)}: {todo}")
        elif twice := [name for name in (schema.label, *used) if names.count(name) > 1]:
            problems.add(f"{path} must have different columns, found {twice[0]!r} more than once: rename one")
        else:
            chosen[path] = columns.Columns(names, names.index(schema.label), tuple(map(names.index, used)))
    return chosen


def columns_of(path: Path, schema: TableSchema) -> columns.Columns:
    """Return the columns that a schema needs of a table of new rows, which need not have the label."""
    names = tuple(map(columns.spelt, silo_file.header(path)))
    used = [column.name for column in schema.used]
    if lacking := [name for name in used if name not in names]:
        todo = next(filter(None, (columns.alike(name, names) for name in lacking)), "add them")
        raise InputError(f"{path} must have the columns of the model, lacks {columns.listed(lacking)}: {todo}")
    return columns.Columns(names, 0, tuple(map(names.index, used)))
