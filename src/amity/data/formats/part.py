"""Examples as a file holds them, before classes are numbered over all silos."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity.contract import InputError
from amity.data.schema.cells import Numbers, Table, as_number
from amity.data.schema.columns import leave_out
from amity.data.schema.examples import as_features, check_features
from amity.data.schema.labels import Written, written
from amity.data.schema.remarks import Look, look
from amity.errors import several


class Part(NamedTuple):
    """The examples of one file or folder: a whole silo, or its train or test part."""

    x: Tensor  # [n, ...] float32, or uint8 pixels
    y: Written  # [n]
    where: str  # the file or folder
    columns: tuple[str, ...] = ()  # names of the features, where they have some
    named: bool = False  # labels are the names of folders
    look: Look | None = None  # statistics of the columns, where the examples are a table


def part_of_arrays(x: Written, y: Written, x_where: str, y_where: str, where: str) -> Part:
    """Return examples from two arrays, x [n, ...] and y [n]; the `where`s name file and array in errors."""
    if x.dtype.kind != "f" and x.dtype != np.uint8:
        raise InputError(f"{x_where} must be floating point or uint8, found {x.dtype}: convert it to float32")
    if x.dtype == np.uint8 and x.ndim == 3:
        x = x[:, None]  # grey images
    # Codes scaled as pixels would all be -1, and nobody has images 4 pixels wide of more than 4 channels.
    if x.dtype == np.uint8 and (x.ndim != 4 or x.shape[3] <= 4 < x.shape[1]):
        raise InputError(
            f"{x_where} uint8 must be pixels [n, channels, height, width], found shape {x.shape}: order the axes so, "
            "or convert it to float32 if these are no pixels"
        )
    with np.errstate(over="ignore"):  # infinity is refused below
        kind = np.dtype(np.float64) if x.dtype.itemsize > 8 else x.dtype.newbyteorder("=")  # torch knows no others
        native = x.astype(kind, copy=False)
    examples = torch.from_numpy(native)
    if x.dtype == np.uint8:
        check_features(examples, x_where)  # pixels, scaled when they are dealt
    else:
        examples = as_features(examples, x_where)
    if y.ndim != 1 or len(y) != len(x):
        raise InputError(f"{y_where} must be one label for each of {len(x)} examples, found shape {y.shape}: align it")
    if not len(x):
        raise InputError(f"{x_where} must have one example or more, found none: add some or leave this silo out")
    return Part(examples, written(y, y_where), where, look=look(native) if native.ndim == 2 else None)


def part_of_table(table: Table, names: Sequence[str]) -> Part:
    """Return the examples of a table of complete numbers, as they are. All that is no number is told at once."""
    problems, columns = list[str](), list[Numbers]()
    for name in names:
        cells = table.columns[name]
        values, words = cells.mapped(as_number)
        if words.any():
            row = int(words.argmax())
            problems.append(
                f"{table.place(row)}: {name} must be a number, found {cells.example(row)!r:.60}: encode it, or "
                f"{leave_out(name)}"
            )
        elif (gaps := np.isnan(values)).any():
            problems.append(f"{table.place(int(gaps.argmax()))}: {name} is missing: fill it in or drop the row")
        columns.append(values)
    if problems:
        raise several(problems)
    x = np.stack(columns, axis=1)
    examples = as_features(torch.from_numpy(x), f"{table.where}:")
    return Part(examples, table.labels, table.where, tuple(names), look=look(x))
