"""The runs beside a run: those that its models are compared with, and those whose cards tell of it.

    D, D/alone                        a method, and every silo alone: `amity run`
    D/fedamp, D/separate, D/fedavg    a comparison: `amity compare`
    .../seed-0                        in each of these, where there are several seeds

Only those count that are finished and were tested on the same examples of the same silos.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amity.config.references import ALONE_FOLDER
from amity.errors import InputError
from amity.methods import METHODS
from amity.record import Record, read

ALONE = "separate"
REFERENCES = {
    ALONE: "a model trained by the silo alone",
    "fedavg": "one global model for all silos",
    "pooled": "one model on all silos' data in one place",
}
"""The methods that a personal model is compared with."""


def references(record: Record) -> dict[str, Record]:
    """Return the runs that the models of this one are compared with, by method."""
    found: dict[str, Record] = {}
    for method, place in _compared_with(record.path):
        other = _like(record, place) if method != record.facts["method"] and method not in found else None
        if other is not None and other.facts["method"] == method:
            found[method] = other
    return found


def told_by(record: Record) -> list[Record]:
    """Return the runs beside this one whose cards tell of it: those of other methods, if this is a reference."""
    if record.facts["method"] not in REFERENCES:
        return []
    found = (_like(record, place) for place in _comparing(record.path))
    return [other for other in found if other is not None and other.facts["method"] != record.facts["method"]]


def _compared_with(path: Path) -> Iterator[tuple[str, Path]]:
    seed = path.name if path.name.startswith("seed-") else ""
    own = path.parent if seed else path  # the directory of the method, with all its seeds
    yield ALONE, own / ALONE_FOLDER / seed
    yield from ((method, own.parent / method / seed) for method in REFERENCES)


def _comparing(path: Path) -> Iterator[Path]:
    seed = path.name if path.name.startswith("seed-") else ""
    own = path.parent if seed else path
    if own.name == ALONE_FOLDER:
        yield own.parent / seed
    elif own.name in REFERENCES:
        yield from (own.parent / method / seed for method in METHODS)


def _like(record: Record, path: Path) -> Record | None:
    """Return the run in a directory, where there is a finished one that can be compared with this one."""
    try:
        other = read(path)
    except InputError:
        return None
    same = other.facts.get("test_sha256") == record.facts.get("test_sha256") and other.silos == record.silos
    return other if same and other.summary is not None and other.has_model_facts else None
