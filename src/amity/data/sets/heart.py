"""UCI Heart Disease: four hospitals as four natural silos. The question is whether a patient has a narrowed vessel
(num > 0).

A silo knows its own patients only. Missing values are imputed from the training rows of the same hospital: by the
median of a measurement, by the most frequent value of a code (the smallest of equals). What a hospital never measured
stays neutral: 0 after scaling, no bit set. Scaling is by constants, as with pixels: statistics of a silo would put the
silos into different units, those of all silos would leak.

A blood pressure or cholesterol of 0 counts as missing: nobody alive has it, and in the Swiss file everybody does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from amity.contract import InputError, Split
from amity.data.division import Division
from amity.data.formats.content import AGAIN, Arrays, read_bytes
from amity.data.sets.entry import SourceEntry
from amity.data.source import NaturalSilo, Source, join

Table = npt.NDArray[np.float64]

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num".split()

# (x - middle) / width: round numbers of an adult, so that most values lie between -2 and 2.
MEASURED = {
    "age": (50, 10),
    "trestbps": (130, 20),
    "chol": (240, 50),
    "thalach": (140, 25),
    "oldpeak": (1, 1),
    "ca": (1, 1),
}
YES_NO = ("sex", "fbs", "exang")
CODES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}

FEATURES = (*MEASURED, *YES_NO, *(f"{name}={code}" for name, codes in CODES.items() for code in codes))


def build(entry: SourceEntry, arrays: Mapping[str, Tensor], division: Division) -> Source:
    """Return the patients of the four hospitals, with a part of each hospital's held out for testing."""
    train, test, silos = [], [], []
    for hospital in HOSPITALS:
        table = arrays[hospital].numpy()
        y = torch.from_numpy(diagnosis(table))
        held_out = division.held_out(y, hospital)
        x = torch.from_numpy(features(table, ~held_out.numpy()))
        train.append(Split(x[~held_out], y[~held_out]))
        test.append(Split(x[held_out], y[held_out]))
        silos.append(NaturalSilo(hospital, len(train[-1].y), len(test[-1].y)))
    return Source(entry.name, join(train), join(test), entry.classes, silos=tuple(silos))


def tables(paths: Sequence[Path]) -> Arrays:
    """Return one table per hospital, with NaN where a value is missing.  # [n, 14]"""
    return {hospital: _table(path) for hospital, path in zip(HOSPITALS, paths, strict=True)}


def _table(path: Path) -> Table:
    text = read_bytes(path).decode("ascii", errors="replace")
    rows = [row for row in enumerate(text.splitlines(), 1) if row[1].strip()]
    if not rows:
        raise InputError(f"{path} must have one row per patient, found none: {AGAIN}")
    return np.array([_row(line, f"{path}, row {number}:") for number, line in rows])


def _row(line: str, where: str) -> list[float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(COLUMNS):
        raise InputError(f"{where} must have {len(COLUMNS)} values, found {len(cells)}: {AGAIN}")
    try:
        values = [np.nan if cell == "?" else float(cell) for cell in cells]
    except ValueError:
        raise InputError(f"{where} must hold numbers or ?, found {line!r}: {AGAIN}") from None
    for name, value in zip(COLUMNS, values, strict=True):
        allowed = CODES.get(name) or ((0, 1) if name in YES_NO else range(5) if name == "num" else None)
        if allowed is not None and not np.isnan(value) and value not in allowed:
            raise InputError(f"{where} {name} must be one of {', '.join(map(str, allowed))}, found {value:g}: {AGAIN}")
    if np.isnan(values[-1]):
        raise InputError(f"{where} num, the diagnosis, must be known, found ?: {AGAIN}")
    return values


def diagnosis(table: Table) -> npt.NDArray[np.int64]:
    """Return 0 for each healthy patient and 1 for each ill one.  # [n]"""
    return (table[:, COLUMNS.index("num")] > 0).astype(np.int64)


def features(table: Table, train: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Return what a model sees of one hospital's patients; `train` marks the rows to impute from.  # [n, 22]"""
    columns = dict(zip(COLUMNS, table.T, strict=True))
    out = []
    for name, (middle, width) in MEASURED.items():
        values = columns[name]
        if name in ("trestbps", "chol"):
            values = np.where(values == 0, np.nan, values)
        known = values[train & ~np.isnan(values)]
        out.append((np.where(np.isnan(values), np.median(known) if len(known) else middle, values) - middle) / width)
    for name in YES_NO:
        out.append(np.nan_to_num(2 * _most_frequent(columns[name], train) - 1, nan=0.0))  # -1 no, 1 yes
    for name, codes in CODES.items():
        values = _most_frequent(columns[name], train)
        out += [(values == code).astype(np.float64) for code in codes]
    return np.stack(out, axis=1).astype(np.float32)


def _most_frequent(values: Table, train: npt.NDArray[np.bool_]) -> Table:
    """Return codes with missing ones replaced by the most frequent of the training rows, if these have any."""
    known, counts = np.unique(values[train & ~np.isnan(values)], return_counts=True)
    return np.where(np.isnan(values), known[counts.argmax()], values) if len(known) else values
