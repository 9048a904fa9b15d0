"""A folder of silos, `--data folder:PATH`: every file or folder in PATH is one silo (see `folder_layout`).

Labels may be words; the classes are the union over silos. Where something is wrong with several silos, one error names
all of them. Tables alone become features by a schema (see `tables`); beside arrays, they are taken as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from amity.contract import InputError, Split
from amity.data.division import Division
from amity.data.formats import images, silo_file
from amity.data.formats.content import unreadable
from amity.data.formats.part import Part
from amity.data.memory import NUMBER, MemoryBudget
from amity.data.own.agreement import check_names
from amity.data.own.folder_layout import Piece, check_level, entries, pieces, silo_name
from amity.data.own.problems import Problems
from amity.data.own.table_columns import TableOptions, chosen_columns
from amity.data.own.tables import Survey, read_tables, survey_tables
from amity.data.schema import columns, labels, remarks
from amity.data.schema.label_kind import number_by_kind
from amity.data.source import FOLDER, NaturalSilo, Source, join, scale_pixels


def read_folder(path: Path, division: Division, kind: labels.Kind, options: TableOptions) -> Source:
    """Read all silos of a folder, each with its own train and test part.

    `kind` says what their labels are; `options` say which column of tables holds them, and what becomes of the others.
    """
    with _readable(path):
        names, placed = _placed(path)
        if _all_tables(placed):
            return read_tables(path, dict(zip(names, placed.values(), strict=True)), division, kind, options)
        return _read_arrays(path, names, placed, division, kind, options)


def survey_folder(path: Path, division: Division, kind: labels.Kind, options: TableOptions) -> Survey:
    """Look at a folder of tables: the schema that its silos agree on, and what is to be decided about it."""
    with _readable(path):
        names, placed = _placed(path)
        if not _all_tables(placed):
            raise InputError(f"{path} must hold csv or parquet files alone to have a schema, found others: move them")
        silos = dict(zip(names, placed.values(), strict=True))
        return survey_tables(path, silos, division, kind, options, MemoryBudget())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(Path(error.filename or path), error) from error


def _placed(path: Path) -> tuple[list[str], dict[Path, list[Piece]]]:
    """Return the names of the silos of a folder, and the files and folders of each."""
    found = entries(path, "a folder with one file or folder per silo")
    if not found:
        raise InputError(f"{path} must hold one file or folder per silo, found nothing: add some")
    names = [silo_name(entry) for entry in found]
    check_names(names)
    check_level(path, names)
    return names, _each(found, pieces)


def _all_tables(placed: Mapping[Path, list[Piece]]) -> bool:
    return all(piece.is_table for own in placed.values() for piece in own)


def _read_arrays(
    path: Path,
    names: Sequence[str],
    placed: Mapping[Path, list[Piece]],
    division: Division,
    kind: labels.Kind,
    options: TableOptions,
) -> Source:
    """Return silos of which some are arrays or images: what they hold is taken as it is, tables beside them too."""
    budget, found = MemoryBudget(), list(placed)
    if options.schema is not None:
        raise InputError(f"{path} must hold csv or parquet files alone for --schema, found others: leave it out")
    chosen = _chosen([piece.path for own in placed.values() for piece in own if piece.is_table], path, options)
    placed = _each(found, lambda entry: _weighed(placed[entry], chosen, budget))
    silos = _each(found, lambda entry: [part for piece in placed[entry] for part in _parts(piece, chosen, budget)])
    parts = _alike([part for own in silos.values() for part in own], budget)
    kind = "classes" if kind == "auto" and any(part.named for part in parts) else kind  # a folder per class is one
    written = {str(entry): [part.y for part in own] for entry, own in silos.items()}
    numbered, notes = number_by_kind(written, kind, by_name=all(part.named for part in parts))
    if numbered.classes == 1:
        raise InputError(f"{path} must have two classes or more, found {numbered.names[0]!r} only: check the labels")
    splits = deque(Split(part.x, y) for part, y in zip(parts, numbered.parts, strict=True))
    halves = {name: len(own) == 2 for name, own in zip(names, silos.values(), strict=True)}
    looks = {name: [p.look for p in own if p.look] for name, own in zip(names, silos.values(), strict=True)}
    del silos, parts, written  # dividing makes a copy, and one is enough
    train, test = _divided(splits, halves, division)
    label = ", ".join(dict.fromkeys(table.label_name for table in chosen.values()))
    features = next((table.feature_names for table in chosen.values()), ())
    return Source(
        f"{FOLDER}{path}",
        join(train),
        join(test),
        numbered.classes,
        silos=tuple(NaturalSilo(name, len(a.y), len(b.y)) for name, a, b in zip(names, train, test, strict=True)),
        labels=numbered.names,
        notes=(*notes, *columns.suspects(label, features), *remarks.on_columns(looks, features)),
        label=label,
        features=features,
    )


def _divided(splits: deque[Split], halves: Mapping[str, bool], division: Division) -> tuple[list[Split], list[Split]]:
    """Return the train and the test parts of all silos; `halves` says of each silo whether it brought both."""
    pairs = [
        (splits.popleft(), splits.popleft()) if both else division.divide(splits.popleft(), name)
        for name, both in halves.items()
    ]
    return [train for train, _ in pairs], [test for _, test in pairs]


Made = TypeVar("Made")


def _each(silos: Sequence[Path], make: Callable[[Path], Made]) -> dict[Path, Made]:
    """Return what `make` makes of each silo; one error collects what is wrong with several of them."""
    problems = Problems()
    made = problems.each(silos, make)
    problems.check()
    return made


def _chosen(paths: Sequence[Path], folder: Path, options: TableOptions) -> dict[Path, columns.Columns]:
    """Return the columns of the tables that stand beside arrays."""
    if options.wanted != columns.Wanted() and not paths:
        raise InputError(
            f"{folder} must hold csv or parquet files for --label and --drop-column to choose from, found none: "
            "leave them out"
        )
    problems = Problems()
    chosen = chosen_columns(paths, folder, options, problems)
    problems.check()
    first = next(iter(chosen.values()), None)
    return {path: table if first is None else table.ordered(first) for path, table in chosen.items()}


def _weighed(own: list[Piece], chosen: Mapping[Path, columns.Columns], budget: MemoryBudget) -> list[Piece]:
    """Take the memory for a silo's files, and return them; images take theirs one by one when they are read."""
    for piece in own:
        if piece.classes is None:
            silo_file.weigh(piece.path, chosen.get(piece.path), budget)
    return own


def _parts(piece: Piece, chosen: Mapping[Path, columns.Columns], budget: MemoryBudget) -> list[Part]:
    """Return the examples of one piece of a silo."""
    if piece.classes is not None:
        return [images.read(piece.path, piece.classes, budget)]
    parts = silo_file.read(piece.path, chosen.get(piece.path), budget)
    if piece.half and len(parts) != 1:
        raise InputError(
            f"{piece.path} must hold x and y, found train and test parts: the file's name says which it is"
        )
    return parts


def _alike(parts: Sequence[Part], budget: MemoryBudget) -> list[Part]:
    """Return parts whose examples have one shape and type.

    Grey images get three channels if others are in colour, pixels are scaled if others are numbers.
    """
    shapes = {tuple(part.x.shape[1:]) for part in parts}
    if {len(shape) for shape in shapes} == {3} and {shape[0] for shape in shapes} == {1, 3}:
        for part in parts:
            budget.take(NUMBER * part.x.numel() * (3 - part.x.shape[1]), part.where)
        parts = [part._replace(x=part.x.expand(-1, 3, -1, -1)) for part in parts]
    if len({part.x.dtype for part in parts}) > 1:
        parts = [part._replace(x=scale_pixels(part.x)) for part in parts]
    first = parts[0]
    for part in parts:
        if part.x.shape[1:] != first.x.shape[1:]:
            raise InputError(
                f"{part.where}: examples must have the shape {tuple(first.x.shape[1:])} of {first.where}, "
                f"found {tuple(part.x.shape[1:])}: give all silos the same features"
            )
    return list(parts)
