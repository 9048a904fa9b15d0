"""One silo's files, read as `--data folder:` reads them, with the columns in a given order.

patients.csv · patients.parquet · patients.npz      one file; npz may hold both parts
FOLDER/train.csv, test.csv                          a folder with both parts; or with one file
FOLDER/cat/1.png, FOLDER/dog/2.png                  a folder of images per class, or train and test of these
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity.data.formats import csv, images, npz, silo_file
from amity.data.formats.part import Part, part_of_arrays
from amity.data.memory import MemoryBudget
from amity.data.own.folder_layout import Piece, entries, pieces
from amity.data.own.problems import Problems
from amity.data.own.table_columns import TableOptions, chosen_columns
from amity.data.schema import columns
from amity.data.schema.examples import as_features
from amity.data.schema.labels import Written
from amity.data.schema.table_schema import TableSchema
from amity.data.source import scale_pixels
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


def read_examples(path: Path, features: Sequence[str] | None, *, pixels: bool) -> Tensor:
    """The examples in a file without labels, or with labels that are not looked at.

    `pixels`: whole numbers from 0 to 255 are pixels, which a model takes scaled.
    """
    budget = MemoryBudget()
    if path.is_dir():
        inside = [entry for entry in entries(path, "a folder of images") if entry.is_dir()]
        return scale_pixels(images.read(path, inside or [path], budget).x)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        silo_file.weigh(path, None, budget)
        arrays = npz.read(path)
        if "x" not in arrays:
            raise InputError(f"{path} must contain x, found {', '.join(arrays)}: rename the array of examples")
        part = part_of_arrays(arrays["x"], np.zeros(len(arrays["x"])), f"{path}, x:", "", str(path))
        return scale_pixels(part.x) if pixels else part.x.float()
    if suffix not in silo_file.TABLES:
        raise InputError(f"{path} must be csv, parquet, npz or a folder of images, it is not: convert it")
    return _rows(path, features, budget)


def _rows(path: Path, features: Sequence[str] | None, budget: MemoryBudget) -> Tensor:
    """The rows of a table: the features, in their order."""
    header = [columns.spelt(name) for name in silo_file.header(path)]
    wanted = header if features is None else [columns.spelt(name) for name in features]
    if missing := [name for name in wanted if name not in header]:
        raise InputError(f"{path} must have the columns of the model, it lacks {columns.listed(missing)}: add them")
    places = [header.index(name) for name in wanted]
    if path.suffix.lower() == ".csv":
        # The reader wants a label, which a table to predict for need not have: any column will do.
        return csv.read(path, columns.Columns(tuple(header), places[0], tuple(places)), budget).x
    return _parquet_rows(path, places)


def _parquet_rows(path: Path, places: Sequence[int]) -> Tensor:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path} needs pyarrow to be read, which is not there: pip install 'amity[parquet]'") from None
    try:
        table = pq.read_table(path)
        x = np.stack([table.column(place).to_numpy().astype(np.float64) for place in places], axis=1)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} must hold columns of numbers ({str(error).splitlines()[0]}): encode them") from None
    return as_features(torch.from_numpy(x), f"{path}:")
