"""Silos that are tables: they are read, divided, agree on a schema by the summaries of their training rows, and become
features by it. What goes on between the silos here is what goes on between organisations: a summary is all they give.

Everything that is wrong with any of the tables is collected and told at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from amity.contract import InputError, Split
from amity.data.division import Division
from amity.data.formats import silo_file
from amity.data.memory import NUMBER, MemoryBudget
from amity.data.own.folder_layout import Piece
from amity.data.own.problems import Problems
from amity.data.own.table_columns import TableOptions, chosen_columns, columns_of
from amity.data.schema import account, columns, labels, remarks
from amity.data.schema.agreement import Agreement, Conflict, agree
from amity.data.schema.cells import Flags, Table
from amity.data.schema.dates import ORDERS, days_of
from amity.data.schema.label_kind import number_by_kind
from amity.data.schema.summary import decoded, encoded, summarise
from amity.data.schema.table_schema import TableSchema, check_features
from amity.data.source import FOLDER, NaturalSilo, Source, join


class _Silo(NamedTuple):
    """One silo's tables and the rows that it trains on."""

    tables: tuple[Table, ...]  # train and test, or one that holds both
    y: tuple[torch.Tensor, ...]
    train: Flags | None  # rows of the one table; None: train and test are apart

    @property
    def training(self) -> Table:
        """The rows that may be learnt from."""
        whole = self.tables[0]
        return whole if self.train is None else whole.take(self.train)


class Survey(NamedTuple):
    """What silos of tables hold, and the schema that they agree on or were given."""

    silos: dict[str, _Silo]
    numbered: labels.Numbered
    label: str
    notes: tuple[str, ...]
    schema: TableSchema
    missing: Mapping[str, float] | None  # share of training rows without a value, by column, where silos have told it
    conflicts: tuple[str, ...]  # columns that people have to decide about

    @property
    def account(self) -> list[account.ColumnAccount]:
        """What is done with each column, in words."""
        return account.account_of(self.schema, self.missing)


def survey_tables(
    folder: Path,
    silos: Mapping[str, Sequence[Piece]],
    division: Division,
    kind: labels.Kind,
    options: TableOptions,
    budget: MemoryBudget,
) -> Survey:
    """Read the silos of a folder that holds nothing but tables, divide them, and let them agree on a schema.

    One error tells all that cannot be read. Columns that silos do not agree on are no error here, but `conflicts`.
    """
    problems, found = Problems(), None
    read = _read(folder, silos, options, problems, budget)
    with problems.collecting():
        written = {str(_entry(silos[name])): [table.labels for table in own] for name, own in read.tables.items()}
        numbered, notes = number_by_kind(written, kind, by_name=False)
        if numbered.classes == 1 and not problems:
            only = numbered.names[0]
            raise InputError(f"{folder} must have two classes or more, found {only!r} only: check the labels")
        y = iter(numbered.parts)
        parts = {name: tuple(next(y) for _ in own) for name, own in read.tables.items()}
        divided = problems.each(read.tables, lambda name: _divided(name, read.tables[name], parts[name], division))
        schema, agreement = _schema(divided, read.label, options)
        conflicts = () if agreement is None else tuple(_told(one, divided, folder) for one in agreement.conflicts)
        notes += tuple(note for own in read.tables.values() for table in own for note in table.notes)
        notes += columns.suspects(read.label, [column.name for column in schema.used])
        notes += account.left_out(schema)
        notes += account.doubtful(() if agreement is None else agreement.doubts)
        missing = None if agreement is None else agreement.missing
        found = Survey(divided, numbered, read.label, notes, schema, missing, conflicts)
    if problems and found is not None:
        _refuse(problems, found)
    problems.check()
    assert found is not None
    return found


def _refuse(problems: Problems, survey: Survey) -> None:
    """Raise one error for all problems, among them those of the schema and of cells that it does not allow."""
    for conflict in survey.conflicts:
        problems.add(conflict)
    problems.each(survey.silos, lambda name: _coded(survey.silos[name], survey.schema))
    problems.check()


def read_tables(
    folder: Path, silos: Mapping[str, Sequence[Piece]], division: Division, kind: labels.Kind, options: TableOptions
) -> Source:
    """Return the silos of a folder that holds nothing but tables, as features."""
    budget = MemoryBudget()
    survey, problems = survey_tables(folder, silos, division, kind, options, budget), Problems()
    if survey.conflicts:
        _refuse(problems, survey)
    schema, names = survey.schema, list(survey.silos)
    check_features(schema)
    for table in (table for own in survey.silos.values() for table in own.tables):
        budget.take(NUMBER * table.rows * len(schema.features), table.where)
    # Taken out of the survey one by one: a silo's table is not needed beside its features.
    coded = problems.each(names, lambda name: _coded(survey.silos.pop(name), schema))
    problems.check()
    train, test = ([pair[part] for pair in coded.values()] for part in (0, 1))
    scales: tuple[str, ...] = ()
    if options.scaling == "none":
        scales = remarks.on_scales({name: [remarks.look(x.numpy())] for name, (x, _) in zip(names, train, strict=True)},
                                   schema.features)  # fmt: skip
    return Source(
        f"{FOLDER}{folder}",
        join(train),
        join(test),
        survey.numbered.classes,
        silos=tuple(NaturalSilo(name, len(a.y), len(b.y)) for name, a, b in zip(names, train, test, strict=True)),
        labels=survey.numbered.names,
        notes=(*survey.notes, *scales),
        label=survey.label,
        features=schema.features,
        schema=schema,
        account=tuple(survey.account),
    )


def read_rows(path: Path, schema: TableSchema) -> Table:
    """Return the rows of a csv or parquet file that a schema can code (`schema.coded`), with labels or without."""
    budget, chosen = MemoryBudget(), columns_of(path, schema)
    if path.suffix.lower() == ".parquet":
        silo_file.weigh(path, chosen._replace(label=chosen.features[0]), budget)
    return silo_file.read_table(path, chosen, budget, labelled=False)


class _Read(NamedTuple):
    tables: dict[str, list[Table]]
    label: str


def _read(
    folder: Path, silos: Mapping[str, Sequence[Piece]], options: TableOptions, problems: Problems, budget: MemoryBudget
) -> _Read:
    """Return the tables of every silo that can be read."""
    chosen = chosen_columns([piece.path for own in silos.values() for piece in own], folder, options, problems)
    label = ", ".join(dict.fromkeys(table.label_name for table in chosen.values()))
    ready = {name: own for name, own in silos.items() if all(piece.path in chosen for piece in own)}

    def weighed(name: str) -> Sequence[Piece]:
        for piece in ready[name]:
            silo_file.weigh(piece.path, chosen[piece.path], budget)
        return ready[name]

    def read(name: str) -> list[Table]:
        return [silo_file.read_table(piece.path, chosen[piece.path], budget) for piece in ready[name]]

    return _Read(problems.each(problems.each(ready, weighed), read), label)


def _entry(pieces: Sequence[Piece]) -> Path:
    return pieces[0].path.parent if len(pieces) > 1 else pieces[0].path


def _divided(name: str, tables: Sequence[Table], y: tuple[torch.Tensor, ...], division: Division) -> _Silo:
    if len(tables) == 2:
        return _Silo(tuple(tables), y, None)
    return _Silo(tuple(tables), y, ~division.held_out(y[0], name).numpy())


def _schema(silos: Mapping[str, _Silo], label: str, options: TableOptions) -> tuple[TableSchema, Agreement | None]:
    """Return the schema that was given, or the one that silos agree on."""
    if options.schema is not None:
        return options.schema, None
    sent = {name: encoded(summarise(silo.training)) for name, silo in silos.items()}
    agreement = agree(label, {name: decoded(content) for name, content in sent.items()}, options.scaling)
    return agreement.schema, agreement


def _told(conflict: Conflict, silos: Mapping[str, _Silo], folder: Path) -> str:
    """Return a conflict in words, with a cell of each silo as an example."""
    found = []
    for silo in conflict.silos:
        table = silos[silo].training
        row = _example(table, conflict)
        found.append(f"{table.place(row)} has {table.columns[conflict.column].example(row)!r:.60}")
    return (
        f"column {conflict.column!r} {conflict.rule}: {', '.join(found)}: write the same everywhere, "
        f"{columns.leave_out(conflict.column)}, or say what it is in a schema file "
        f"(amity data schema folder:{folder} --out schema.toml)"
    )


def _example(table: Table, conflict: Conflict) -> int:
    """Return a row that shows a conflict: one with a word, no date if there is such, else the largest number."""
    cells = table.columns[conflict.column]
    if cells.places is None or not (cells.places >= 0).any():
        return int(np.where(np.isfinite(cells.numbers), np.abs(cells.numbers), -1.0).argmax())
    odd = [place for place, word in enumerate(cells.words) if not any(days_of(word, one) for one in ORDERS)]
    plain = np.isin(cells.places, odd)
    return int((plain if plain.any() else cells.places >= 0).argmax())


def _coded(silo: _Silo, schema: TableSchema) -> tuple[Split, Split]:
    """Return the train and the test part of a silo as features."""
    x = [schema.coded(table) for table in silo.tables]
    if silo.train is None:
        return Split(x[0], silo.y[0]), Split(x[1], silo.y[1])
    rows = torch.from_numpy(silo.train)
    return Split(x[0][rows], silo.y[0][rows]), Split(x[0][~rows], silo.y[0][~rows])
