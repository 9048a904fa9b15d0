"""Tables in csv: this is where text becomes tensors. Whatever cannot be learnt from is refused with file and line.

A table has a header and one row per example. One column holds the labels; all others that are not dropped are features
and must be numbers (see `amity.data.schema.columns`).
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from amity.contract import InputError
from amity.data.formats.content import unreadable
from amity.data.formats.part import Part
from amity.data.memory import MemoryBudget
from amity.data.schema.columns import Columns, leave_out
from amity.data.schema.examples import as_features
from amity.data.schema.labels import MISSING, Written, is_number
from amity.data.schema.remarks import look

if TYPE_CHECKING:
    from _csv import Reader


def header(path: Path) -> list[str]:
    """Return the names of the columns, as the file spells them."""
    with rows(path) as reader:
        return next(reader, [])


def read(path: Path, columns: Columns, budget: MemoryBudget) -> Part:
    """Return the examples of a csv file: features [n, d] as float32, and labels [n] as text."""
    numbers, labels = array("d"), []
    width = numbers.itemsize * len(columns.features)
    with rows(path) as reader:
        next(reader, [])  # the header
        for row in reader:
            if row:
                values, label = _values(row, columns, f"{path}, line {reader.line_num}:")
                budget.take(width + len(label), path)
                numbers.extend(values)
                labels.append(label)
    if not labels:
        raise InputError(f"{path} must have one row per example below its header, found none: add some")
    x = torch.frombuffer(numbers, dtype=torch.float64).view(len(labels), -1)
    y = _words(labels, path, budget)
    return Part(as_features(x, f"{path}:"), y, str(path), columns.feature_names, look=look(x.numpy()))


@contextmanager
def rows(path: Path) -> Iterator[Reader]:
    """Open a csv file and give its rows; errors on the way name the file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            yield csv.reader(stream, strict=True)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a csv file in UTF-8 ({error}): save it as one") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _words(labels: Sequence[str], path: Path, budget: MemoryBudget) -> Written:
    """Return labels as a numpy array of text, in which each takes as many bytes as the longest."""
    budget.take(4 * len(labels) * max(map(len, labels), default=0), path)
    return np.array(labels, dtype=str)


def _values(row: Sequence[str], columns: Columns, where: str) -> tuple[list[float], str]:
    """Return the features and the label of one row."""
    names = columns.header
    if len(row) != len(names):
        raise InputError(f"{where} must have {len(names)} values, found {len(row)}: complete or drop the row")
    label = row[columns.label].strip()
    cells = [row[place].strip() for place in columns.features]
    for place, cell in ((columns.label, label), *zip(columns.features, cells, strict=True)):
        if cell.lower() in MISSING:
            raise InputError(f"{where} {names[place]} is missing ({cell!r}): fill it in or drop the row")
    values = []
    for place, cell in zip(columns.features, cells, strict=True):
        if not is_number(cell) or not math.isfinite(value := float(cell)):
            raise InputError(
                f"{where} {names[place]} must be a number, found {cell!r}: encode it, or {leave_out(names[place])}"
            )
        values.append(value)
    return values, label
