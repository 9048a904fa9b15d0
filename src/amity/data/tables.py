"""A silo's examples in one file: npz, csv or parquet. What cannot be learnt from is refused with file and row.

A table has one row per example and a header. Labels are the column called label, target or y, else the last one;
all other columns are features and must be numbers.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity.contract import InputError
from amity.data import files, npz
from amity.data.labels import MISSING, Written, is_number, written
from amity.data.own import features

LABEL = ("label", "target", "y")
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")  # what pandas calls the row numbers that it saves


class Part(NamedTuple):
    """Examples as they were found."""

    x: Tensor  # [n, ...] float32, or uint8 pixels
    y: Written  # [n]
    where: str  # the file or folder
    columns: tuple[str, ...] = ()  # of the features, where they have names
    named: bool = False  # whether labels are names of folders


def read(path: Path) -> list[Part]:
    """The examples of a file, or its train and test part."""
    return READERS[path.suffix.lower()](path)


def _npz(path: Path) -> list[Part]:
    arrays = npz.read(path)
    if absent := [name for name in ("x_val", "y_val") if name in arrays]:
        raise InputError(
            f"{path} must hold parts to train and test on, found {absent[0]}: join it to x_train, "
            "--val-fraction sets validation examples aside"
        )
    for pairs in ((("x_train", "y_train"), ("x_test", "y_test")), (("x", "y"),)):
        if all(name in arrays for pair in pairs for name in pair):
            return [_arrays(arrays[x], arrays[y], f"{path}, {x}:", f"{path}, {y}:", str(path)) for x, y in pairs]
    found = ", ".join(arrays)
    raise InputError(f"{path} must contain x and y, or x_train, y_train, x_test, y_test, found {found}: rename them")


def _arrays(x: Written, y: Written, x_where: str, y_where: str, where: str) -> Part:
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
        native = x.astype(np.float64 if x.dtype.itemsize > 8 else x.dtype.newbyteorder("="))  # torch knows no others
    examples = features(torch.from_numpy(native), x_where)
    if x.dtype == np.uint8:
        examples = examples.byte()  # pixels, scaled when they are dealt
    if y.ndim != 1 or len(y) != len(x):
        raise InputError(f"{y_where} must be one label for each of {len(x)} examples, found shape {y.shape}: align it")
    if not len(x):
        raise InputError(f"{x_where} must have one example or more, found none: add some or leave this silo out")
    return Part(examples, written(y, y_where), where)


def _csv(path: Path) -> list[Part]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            header = [name.strip() for name in next(reader, [])]
            label = _label_column(header, path)
            rows = [_row(row, header, label, f"{path}, line {reader.line_num}:") for row in reader if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a csv file in UTF-8 ({error}): save it as one") from error
    except OSError as error:
        raise files.unreadable(path, error) from error
    if not rows:
        raise InputError(f"{path} must have one row per example below its header, found none: add some")
    x = torch.tensor([values for values, _ in rows], dtype=torch.float64)
    y = np.array([mark for _, mark in rows], dtype=str)
    return [Part(features(x, f"{path}:"), y, str(path), _but(header, label))]


def _label_column(header: Sequence[str], path: Path) -> int:
    """The position of the labels."""
    if len(header) < 2:
        raise InputError(f"{path} must have a header of two columns or more, found {len(header)}: use commas")
    named = [place for place, name in enumerate(header) if name.lower() in LABEL]
    columns = _but(header, named[0] if named else len(header) - 1)
    # The numbers that tools give to columns without a name are whole, and do not come with a label that has one.
    if all(is_number(name) for name in columns) and not (named and all(name.isdigit() for name in columns)):
        found = "a row of numbers" if is_number(header[-1]) else f"{','.join(header)[:60]!r}"
        raise InputError(f"{path} must start with a header, found {found}: name the columns, the labels' column label")
    for place, name in enumerate(header):
        if _INDEX.fullmatch(name):
            raise InputError(
                f"{path} must name every column, found {name!r} as number {place + 1}: save it without the index, "
                "or name the column"
            )
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"{path} must have different columns, found {name!r} twice: rename one")
    if len(named) > 1:
        found = ", ".join(header[place] for place in named)
        raise InputError(f"{path} must have one column of labels, found {found}: rename the others")
    return named[0] if named else len(header) - 1


def _but(header: Sequence[str], label: int) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(header) if place != label)


def _row(row: Sequence[str], header: Sequence[str], label: int, where: str) -> tuple[list[float], str]:
    """Features and label."""
    if len(row) != len(header):
        raise InputError(f"{where} must have {len(header)} values, found {len(row)}: complete or drop the row")
    cells = [cell.strip() for cell in row]
    for name, cell in zip(header, cells, strict=True):
        if cell.lower() in MISSING:
            raise InputError(f"{where} {name} is missing ({cell!r}): fill it in or drop the row")
    values = []
    for place, cell in enumerate(cells):
        if place != label:
            if not is_number(cell) or not math.isfinite(float(cell)):
                raise InputError(
                    f"{where} {header[place]} must be a number, found {cell!r}: encode it or drop the column"
                )
            values.append(float(cell))
    return values, cells[label]


def _parquet(path: Path) -> list[Part]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path} needs pyarrow to be read, which is not there: pip install 'amity[parquet]'") from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a parquet file ({str(error).splitlines()[0]}): {files.AGAIN}") from error
    header = list(table.column_names)
    label = _label_column(header, path)
    if not table.num_rows:
        raise InputError(f"{path} must have one row per example, found none: add some")
    columns = []
    for place, name in enumerate(header):
        column = table.column(place)
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"{path}, row {row}: {name} is missing: fill it in or drop the row")
        if place == label and not _is_mark(column.type, pa.types):
            raise InputError(f"{path}, {name}: must be numbers or words, found {column.type}: convert it")
        values = column.to_numpy()
        if place != label and values.dtype.kind not in "biuf":
            raise InputError(f"{path}, {name} must be numbers, found {column.type}: encode it or drop the column")
        columns.append(values)
    x = np.stack([v.astype(np.float64) for place, v in enumerate(columns) if place != label], axis=1)
    where = str(path)
    part = _arrays(x, columns[label], f"{path}:", f"{path}, {header[label]}:", where)
    return [part._replace(columns=_but(header, label))]


def _is_mark(kind: Any, types: Any) -> bool:
    """Whether a column of this arrow type can be labels."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = ("boolean", "integer", "floating", "string", "large_string", "binary", "large_binary")
    return any(getattr(types, f"is_{test}")(kind) for test in tests)


READERS: dict[str, Callable[[Path], list[Part]]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
