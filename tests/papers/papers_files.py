"""The experiments that come with Amity, and the names of their runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from amity.config.run import Run
from amity.papers import spec

ALL = spec.names()
paper = functools.cache(spec.read)


def runs_of(name: str, size: str) -> Iterator[tuple[spec.Cell, Run]]:
    """Every run of an experiment, those that choose a value too, and each value that may be chosen."""
    for cell in paper(name).cells(size):
        for value in cell.choice.values if cell.choice else (None,):
            for seed in range(cell.seeds):
                yield cell, cell.run(seed, value)
        for _, run in cell.trials():
            yield cell, run


def keys(name: str, size: str, rows: tuple[str, ...] = (), columns: tuple[str, ...] = ()) -> set[str]:
    found = {
        spec.key_of(run)
        for cell, run in runs_of(name, size)
        if (not rows or cell.row in rows) and (not columns or cell.column in columns)
    }
    assert found
    return found
