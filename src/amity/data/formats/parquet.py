"""Tables in parquet: their directory tells columns, types and sizes before anything is unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from amity.contract import InputError
from amity.data.formats.content import AGAIN
from amity.data.formats.part import Part, part_of_arrays
from amity.data.memory import NUMBER, MemoryBudget
from amity.data.schema.columns import Columns, leave_out
from amity.data.schema.labels import Written

BYTES = 8 + NUMBER  # per number: pyarrow still holds it while numpy has its copy


@contextmanager
def opened(path: Path, words: tuple[str, ...] = ()) -> Iterator[Any]:
    """Open a parquet file, reading its directory only; the columns in `words` will hold each different word once."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path} needs pyarrow to be read, which is not there: pip install 'amity[parquet]'") from None
    try:
        with pq.ParquetFile(path, read_dictionary=words) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a parquet file ({str(error).splitlines()[0]}): {AGAIN}") from error


def header(path: Path) -> list[str]:
    """Return the names of the columns, as the file spells them."""
    with opened(path) as file:
        return list(file.schema_arrow.names)


def weigh(path: Path, columns: Columns, budget: MemoryBudget) -> None:
    """Take the memory for the columns that are read, at least as numbers: repeated zeros take no space in the file."""
    with opened(path) as file:
        _check_types(file.schema_arrow, columns, path)
        directory, names = file.metadata, file.schema_arrow.names
        read = {names[place] for place in (columns.label, *columns.features)}
        kept = [place for place in range(directory.num_columns) if directory.schema.column(place).path in read]
        for group in (directory.row_group(place) for place in range(directory.num_row_groups)):
            unpacked = (group.column(place).total_uncompressed_size for place in kept)
            budget.take(sum(max(BYTES * group.num_rows, size) for size in unpacked), path)


def _check_types(schema: Any, columns: Columns, path: Path) -> None:
    """Refuse columns that hold neither numbers nor labels, before any of them is read."""
    for place in (columns.label, *columns.features):
        kind, name = schema.field(place).type, columns.header[place]
        if place == columns.label and not (is_number(kind) or _is_word(kind)):
            raise InputError(f"{path}, {name}: must be numbers or words, found {kind}: convert it")
        if place != columns.label and not is_number(kind):
            raise InputError(f"{path}, {name} must be numbers, found {kind}: encode it, or {leave_out(name)}")


def is_number(kind: Any) -> bool:
    return _is_any(kind, "boolean", "integer", "floating")


def _is_word(kind: Any) -> bool:
    return _is_any(kind, "string", "large_string", "binary", "large_binary")


def _is_any(kind: Any, *names: str) -> bool:
    """True if a column has one of these types, or is a pandas category of one of them."""
    from pyarrow import types

    plain = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(plain) for name in names)


def read(path: Path, columns: Columns, budget: MemoryBudget) -> Part:
    """Return the examples of a parquet file that was weighed: features [n, d] as float32, and labels [n]."""
    x, y = _arrays(path, columns, budget)
    part = part_of_arrays(x, y, f"{path}:", f"{path}, {columns.label_name}:", str(path))
    return part._replace(columns=columns.feature_names)


def _arrays(path: Path, columns: Columns, budget: MemoryBudget) -> tuple[npt.NDArray[np.float64], Written]:
    kept = sorted((columns.label, *columns.features))
    with opened(path) as file:
        names = file.schema_arrow.names
        worded = (names[columns.label],) if _is_word(file.schema_arrow.field(columns.label).type) else ()
    with opened(path, worded) as file:
        table = file.read(columns=[names[place] for place in kept])
    if not table.num_rows:
        raise InputError(f"{path} must have one row per example, found none: add some")
    found = {place: table.column(names[place]) for place in kept}
    for place, column in found.items():
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"{path}, row {row}: {columns.header[place]} is missing: fill it in or drop the row")
    label = found.pop(columns.label)
    y = _words(label, path, budget) if worded else label.to_numpy()
    return np.stack([column.to_numpy().astype(np.float64, copy=False) for column in found.values()], axis=1), y


def _words(column: Any, path: Path, budget: MemoryBudget) -> Written:
    """Return labels, of which only the different ones were unpacked: a short file may repeat a long one very often."""
    words = [chunk.dictionary.to_pylist() for chunk in column.chunks]
    budget.take(4 * len(column) * max(len(word) for some in words for word in some), path)  # as numpy keeps text
    pairs = zip(words, column.chunks, strict=True)
    return np.concatenate([np.array(some, dtype=object)[chunk.indices.to_numpy()] for some, chunk in pairs])
