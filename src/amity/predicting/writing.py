"""Predictions as people and programs read them: a file of rows, JSON, a small table on the screen."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amity.errors import InputError
from amity.predicting.predictions import FOR_NEW_ROWS, Predictions
from amity.predicting.target import writing
from amity.record.files import plain, replace, replacing

ROW, PREDICTION = "row", "prediction"
PROBABILITIES, LABEL = "probabilities", "label"  # in JSON
SUFFIXES = (".csv", ".parquet")


def columns_of(predictions: Predictions) -> list[str]:
    """Return the names of the columns: the row, what was kept, the prediction and the probability of every class."""
    return [ROW, *predictions.kept, PREDICTION, *(f"p({label})" for label in predictions.labels or ())]


def rows_of(predictions: Predictions) -> Iterator[list[Any]]:
    """Return a row for each example, in their order."""
    for row, value in enumerate(predictions.values):
        shares = () if predictions.probabilities is None else predictions.probabilities[row].tolist()
        yield [row, *(column[row] for column in predictions.kept.values()), value, *shares]


def check_target(out: Path, data: Path) -> None:
    """Refuse a file that predictions cannot go to, before anything is computed."""
    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"--out must be a csv or parquet file, got {out}: name it predictions.csv")
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out must not be the file that is read, got {out} for both: give another --out")


def check_kept(predictions: Predictions, *, as_json: bool) -> None:
    """Refuse columns to be kept whose names the predictions need for themselves: one of both would be lost."""
    own = {ROW, PREDICTION, *(f"p({label})" for label in predictions.labels or ())}
    own |= {PROBABILITIES, LABEL} if as_json else set()
    if clash := [name for name in predictions.kept if name in own]:
        raise InputError(
            f"--keep must name other columns than those of the predictions, got {', '.join(clash)}: rename them in "
            "the table, or leave them out"
        )


def write_predictions(predictions: Predictions, out: Path) -> None:
    """Write predictions as a table, csv or parquet by the file's name. It is there as a whole, or not at all."""
    with writing(out):
        if out.suffix.lower() == ".parquet":
            _write_parquet(predictions, out)
        else:
            replace(out, _csv_text(predictions).encode())


def _csv_text(predictions: Predictions) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns_of(predictions))
    first = 2 + len(predictions.kept)  # of the probabilities
    for row in rows_of(predictions):
        rows.writerow((*row[:first], *(f"{share:.6g}" for share in row[first:])))
    return text.getvalue()


def _write_parquet(predictions: Predictions, out: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{out} needs pyarrow to be written, it is not there: pip install 'amity[parquet]'") from None
    columns = list(zip(*rows_of(predictions), strict=True))
    table = pa.Table.from_arrays([pa.array(column) for column in columns], names=columns_of(predictions))
    with replacing(out) as temporary:
        pq.write_table(table, temporary)


def to_dict(predictions: Predictions) -> dict[str, Any]:
    """Return predictions in JSON's types."""
    agreement = predictions.agreement
    return {
        "classes": None if predictions.labels is None else list(predictions.labels),
        "predictions": [_item(predictions, row) for row in range(len(predictions.values))],
        "agreement": None if agreement is None else plain(agreement._asdict()),
        "notes": [*predictions.notes, *([] if agreement is None else [FOR_NEW_ROWS])],
    }


def _item(predictions: Predictions, row: int) -> dict[str, Any]:
    item: dict[str, Any] = {ROW: row, **{name: column[row] for name, column in predictions.kept.items()}}
    item[PREDICTION] = predictions.values[row]
    if predictions.labels is not None and predictions.probabilities is not None:
        item[PROBABILITIES] = dict(zip(predictions.labels, predictions.probabilities[row].tolist(), strict=True))
    if predictions.truth is not None:
        item[LABEL] = predictions.truth[row]
    return item
