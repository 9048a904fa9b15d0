"""One silo's files, read as `--data folder:` reads them, with the columns in a given order.

patients.csv · patients.parquet · patients.npz      one file; npz may hold both parts
FOLDER/train.csv, test.csv                          a folder with both parts; or with one file
FOLDER/cat/1.png, FOLDER/dog/2.png                  a folder of images per class, or train and test of these
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from amity.data.formats import images, silo_file
from amity.data.formats.part import Part
from amity.data.memory import MemoryBudget
from amity.data.own.folder_layout import Piece, pieces
from amity.data.own.problems import Problems
from amity.data.own.table_columns import TableOptions, chosen_columns
from amity.data.schema import columns
from amity.data.schema.labels import Written
from amity.data.schema.table_schema import TableSchema
from amity.errors import InputError


class Table(NamedTuple):
    """The columns of a table that are read, and the order in which a model takes the features."""

    columns: columns.Columns
    order: tuple[int, ...]  # of the features, as places among those that are read
    missing: tuple[str, ...]


class Read(NamedTuple):
    """The examples of one file or folder."""

    x: Tensor
    y: Written
    label: str  # where the labels are, in words
    features: tuple[str, ...] = ()  # names of the columns of x, where it has some
    missing: tuple[str, ...] = ()  # columns that are wanted and not there


def read_parts(path: Path, label: str | None, drop: Sequence[str], features: Sequence[str] | None) -> list[Read]:
    """The examples of a silo: its train and test part, or one that is still to be divided.

    Columns come in the order of `features`, or of the first table.
    """
    budget, found = MemoryBudget(), list[Read]()
    for piece in pieces(path):
        wanted = features if features is not None or not found else found[0].features
        found += _read(piece, label, drop, wanted, budget)
    return found


def read_by_schema(path: Path, schema: TableSchema, label: str | None, drop: Sequence[str]) -> list[Read]:
    """The same of tables, whose columns become features by a schema."""
    options, problems, budget = TableOptions(columns.wanted(label, drop), schema), Problems(), MemoryBudget()
    own = pieces(path)
    if others := [piece.path.name for piece in own if not piece.is_table]:
        raise InputError(
            f"{path} must be csv or parquet for a schema, found {columns.listed(others)}: leave schema out"
        )
    chosen = chosen_columns([piece.path for piece in own], path, options, problems)
    problems.check()
    found = []
    for piece in own:
        silo_file.weigh(piece.path, chosen[piece.path], budget)
        table = silo_file.read_table(piece.path, chosen[piece.path], budget)
        found.append(Read(schema.coded(table), table.labels, f"column {schema.label!r}", schema.features))
    return found


def lacking_columns(path: Path, schema: TableSchema) -> list[str]:
    """The columns of a schema, its label among them, that some table of the silo does not have."""
    wanted = (schema.label, *(column.name for column in schema.used))
    headers = [set(map(columns.spelt, silo_file.header(piece.path))) for piece in pieces(path)]
    return [name for name in wanted if not all(name in header for header in headers)]


def _read(
    piece: Piece, label: str | None, drop: Sequence[str], features: Sequence[str] | None, budget: MemoryBudget
) -> list[Read]:
    if piece.classes is not None:
        return [_plain(images.read(piece.path, piece.classes, budget), "the names of its folders")]
    if not piece.is_table:
        silo_file.weigh(piece.path, None, budget)
        return [_plain(part, "its labels") for part in silo_file.read(piece.path, None, budget)]
    header = silo_file.header(piece.path)
    columns.check_dropped(str(piece.path), [header], columns.wanted(label, drop))
    table = _table(header, columns.wanted(label, drop), features)
    if table.missing:
        return [Read(Tensor(), Written((0,)), "", missing=table.missing)]
    silo_file.weigh(piece.path, table.columns, budget)
    (part,) = silo_file.read(piece.path, table.columns, budget)
    names = tuple(table.columns.feature_names[place] for place in table.order)
    return [Read(part.x[:, list(table.order)], part.y, f"column {table.columns.label_name!r}", names)]


def _plain(part: Part, label: str) -> Read:
    return Read(part.x, part.y, label)


def _table(header: Sequence[str], asked: columns.Wanted, features: Sequence[str] | None) -> Table:
    """The columns of a table; those that no model asks for are left out."""
    names = [columns.spelt(name) for name in header]
    if features is not None:
        wanted = [columns.spelt(name) for name in features]
        if missing := tuple(name for name in wanted if name not in names or name in asked.drop):
            return Table(columns.Columns(tuple(names), 0, ()), (), missing)
        usual = () if asked.label else columns.NAMES
        kept = {*wanted, asked.label, *(name for name in names if name.lower() in usual)}
        asked = columns.Wanted(asked.label, (*asked.drop, *(name for name in names if name not in kept)))
    chosen = columns.choose(header, asked)
    read = chosen.feature_names
    return Table(chosen, tuple(range(len(read))) if features is None else tuple(map(read.index, wanted)), ())
