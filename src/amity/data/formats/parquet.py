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
from amity.data.formats.part import Part, part_of_table
from amity.data.memory import NUMBER, MemoryBudget
from amity.data.schema.cells import Column, ColumnReader, Table
from amity.data.schema.columns import Columns, leave_out
from amity.data.schema.labels import Written, written
from amity.errors import several

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
    """Refuse columns that hold neither numbers nor words nor dates, before any of them is read."""
    problems = []
    for place in dict.fromkeys((columns.label, *columns.features)):
        kind, name = schema.field(place).type, columns.header[place]
        if place not in columns.features and not (is_number(kind) or _is_word(kind)):
            problems.append(f"{path}, {name}: must be numbers or words, found {kind}: convert it")
        if place in columns.features and not (is_number(kind) or _is_text(kind) or _is_date(kind)):
            rule = "must be numbers, words or dates"
            problems.append(f"{path}, {name} {rule}, found {kind}: convert it, or {leave_out(name)}")
    if problems:
        raise several(problems)


def is_number(kind: Any) -> bool:
    return _is_any(kind, "boolean", "integer", "floating", "decimal", "null")


def _is_text(kind: Any) -> bool:
    return _is_any(kind, "string", "large_string")


def _is_word(kind: Any) -> bool:
    return _is_text(kind) or _is_any(kind, "binary", "large_binary")


def _is_date(kind: Any) -> bool:
    return _is_any(kind, "date", "timestamp")


def _is_any(kind: Any, *names: str) -> bool:
    """True if a column has one of these types, or is a pandas category of one of them."""
    from pyarrow import types

    plain = kind.value_type if types.is_dictionary(kind) else kind
    return any(getattr(types, f"is_{name}")(plain) for name in names)


def read(path: Path, columns: Columns, budget: MemoryBudget) -> Part:
    """Return the examples of a weighed parquet file of complete numbers: features [n, d] as float32, labels [n]."""
    return part_of_table(read_table(path, columns, budget), columns.feature_names)


def read_table(path: Path, columns: Columns, budget: MemoryBudget, *, labelled: bool = True) -> Table:
    """Return the columns of a weighed parquet file that are features, and its labels; `labelled=False`: it has none."""
    kept = sorted({*columns.features, *([columns.label] if labelled else [])})
    with opened(path) as file:
        names, schema = file.schema_arrow.names, file.schema_arrow
        worded = tuple(names[place] for place in kept if _is_word(schema.field(place).type))
    with opened(path, worded) as file:
        table = file.read(columns=[names[place] for place in kept])
    if not table.num_rows:
        raise InputError(f"{path} must have one row per example, found none: add some")
    problems, found = list[str](), dict[str, Column]()
    for place in columns.features:
        cells = _cells(table.column(names[place]))
        if (infinite := np.isinf(cells.numbers)).any():
            name, row = columns.header[place], int(infinite.argmax())
            problems.append(f"{path}, row {row}: {name} must be finite, found {cells.numbers[row]}: drop it")
        found[columns.header[place]] = cells
    labels = np.empty(0, dtype=str)
    if labelled:
        column = table.column(names[columns.label])
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            name = columns.label_name
            problems.append(f"{path}, row {row}: {name} is missing, and it is the label: fill it in or drop the row")
        elif not problems:
            y = _words(column, path, budget) if names[columns.label] in worded else column.to_numpy()
            labels = written(y, f"{path}, {columns.label_name}:")
    if problems:
        raise several(problems)
    return Table(str(path), found, labels)


def _cells(column: Any) -> Column:
    """Return one column: numbers, or words, of which only the different ones are unpacked."""
    import pyarrow as pa

    kind = column.type
    if is_number(kind):
        numbers = column.cast(pa.float64()) if not pa.types.is_boolean(kind) else column.cast(pa.int8())
        return Column(numbers.to_numpy().astype(np.float64))
    if _is_date(kind):
        column = column.cast(pa.string())
    parts = [_coded_words(chunk) for chunk in column.chunks]
    reader = ColumnReader()
    for words, places in parts:
        reader.add_coded(words, places)
    return reader.column()


def _coded_words(chunk: Any) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the different words of a chunk, and for each row the place of its word; -1 for none."""
    coded = chunk if hasattr(chunk, "dictionary") else chunk.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _words(column: Any, path: Path, budget: MemoryBudget) -> Written:
    """Return labels, of which only the different ones were unpacked: a short file may repeat a long one very often."""
    words = [chunk.dictionary.to_pylist() for chunk in column.chunks]
    budget.take(4 * len(column) * max(len(word) for some in words for word in some), path)  # as numpy keeps text
    pairs = zip(words, column.chunks, strict=True)
    return np.concatenate([np.array(some, dtype=object)[chunk.indices.to_numpy()] for some, chunk in pairs])
