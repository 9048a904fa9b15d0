"""Loading a data set by name: its files are found or fetched, decoded or taken from the cache, and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from amity.contract import InputError
from amity.data.division import Division
from amity.data.formats.content import Arrays
from amity.data.own.folder import read_folder, survey_folder
from amity.data.own.table_columns import TableOptions
from amity.data.own.tables import Survey
from amity.data.schema.agreement import Scaling
from amity.data.schema.columns import Wanted, wanted
from amity.data.schema.labels import Kind
from amity.data.schema.schema_file import read_schema
from amity.data.schema.table_schema import TableSchema
from amity.data.sets import cache, files
from amity.data.sets.entry import SourceEntry
from amity.data.sets.fetch import Notify, find_or_fetch
from amity.data.sets.registry import SOURCES
from amity.data.sets.verify import checked, notes_on
from amity.data.source import FOLDER, Source


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    seed: int = 0,
    test_fraction: float = 0.2,
    labels: Kind = "auto",
    label: str | None = None,
    drop: Sequence[str] = (),
    schema: str | Path | TableSchema | None = None,
    scale: Scaling = "auto",
    cached: bool = True,
    notify: Notify | None = None,
) -> Source:
    """Load a data set by name, or your own silos by "folder:PATH" (see docs/data.md).

    Files are searched in `data_dir`, $AMITY_DATA, ./data and the user cache, else fetched into the first or last of
    these. `seed` and `test_fraction` divide data that bring no test part. `labels` says what those of your own silos
    are; `label` names the column that holds them, where these are tables, and is needed unless it is called label,
    target, y, outcome or class; `drop` names columns to leave out. `schema`, or the file that holds it, says what the
    other columns are, else the silos agree on that; `scale="none"` leaves numbers as they are. `cached=False` decodes
    and verifies anew.

    >>> digits = amity.load("digits")
    >>> digits.classes, len(digits.train.y) + len(digits.test.y)
    (10, 1797)
    """
    division = Division(seed, test_fraction)
    asked = wanted(label, drop)
    files.check_named(data_dir, variable=False)
    if name.startswith(FOLDER):
        return read_folder(_folder(name), division, labels, TableOptions(asked, _given(schema), scale))
    entry = SOURCES.entry(name, also=[f"{FOLDER}PATH"])
    if asked != Wanted() or schema is not None:
        raise InputError(f"{name} has no columns to choose from, got --label, --drop-column or --schema: leave it out")
    kind = "classes" if entry.classes else "quantities"
    if labels not in ("auto", kind):
        raise InputError(f"the labels of {name} are {kind}, got labels={labels}: leave it at auto")
    if entry.official is None:
        return _built(entry, {}, division)
    found = find_or_fetch(entry, data_dir, notify)

    def decode() -> Arrays:
        return checked(found.decode(), entry, found)

    # The cache knows files, not programs: it would not notice a new version of a package that decodes them otherwise.
    keep = cached and not entry.package
    arrays = cache.decoded(entry.official.folders[0], found.paths, decode) if keep else _tensors(decode())
    source = _built(entry, arrays, division)
    return replace(source, notes=(*notes_on(entry, source, found), *source.notes))


def survey(
    name: str,
    *,
    seed: int = 0,
    test_fraction: float = 0.2,
    labels: Kind = "auto",
    label: str | None = None,
    drop: Sequence[str] = (),
    schema: str | Path | TableSchema | None = None,
    scale: Scaling = "auto",
) -> Survey:
    """Look at your own tables in "folder:PATH": what each column is, and what would be done with it.

    The options are those of `load`.
    """
    if not name.startswith(FOLDER):
        raise InputError(f"a schema is made of your own tables, {FOLDER}PATH, got {name!r}: give a folder")
    options = TableOptions(wanted(label, drop), _given(schema), scale)
    return survey_folder(_folder(name), Division(seed, test_fraction), labels, options)


def _folder(name: str) -> Path:
    path = name.removeprefix(FOLDER)
    if not path:
        raise InputError(f"{FOLDER} needs the path of a folder with your silos, got none: {FOLDER}PATH")
    return files.expanded(path)


def _given(schema: str | Path | TableSchema | None) -> TableSchema | None:
    return read_schema(schema) if isinstance(schema, (str, Path)) else schema


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {key: torch.tensor(array) for key, array in arrays.items()}


def _built(entry: SourceEntry, arrays: dict[str, Tensor], division: Division) -> Source:
    """Build a data set, and refuse what the package of another author built if that is not what it announced."""
    source = entry.build(entry, arrays, division)
    if entry.package and not (isinstance(source, Source) and source.name == entry.name):
        found = f"a Source called {source.name!r}" if isinstance(source, Source) else type(source).__name__
        raise InputError(
            f"{entry.package}: build of the data set {entry.name!r} must return a Source of that name, found {found}: "
            "update the package"
        )
    return source
