"""Flags about one's own tables, which several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from amity.cli.flags import Command, dressed, joined, parameters_of
from amity.config.options import fields_of, parse
from amity.config.run import Run

Labels = Annotated[
    str, typer.Option("--labels", metavar="auto|classes|quantities", help="what the labels of folder:PATH are")
]
LABELS = str(fields_of(Run)["labels"].default)
Label = Annotated[str, typer.Option("--label", metavar="COLUMN", help="column of the labels in tables of folder:PATH")]
LABEL = str(fields_of(Run)["label"].default)
Dropped = Annotated[
    list[str] | None,
    typer.Option("--drop-column", metavar="COLUMN", help="column of such tables to leave out; may be repeated"),
]
Schema = Annotated[
    str, typer.Option("--schema", metavar="FILE", help="schema file that says what each column of such tables is")
]
SCHEMA = str(fields_of(Run)["schema"].default)
Scale = Annotated[
    str, typer.Option("--scale", metavar="auto|none", help="whether numbers of such tables are scaled, over all silos")
]
SCALE = str(fields_of(Run)["scale"].default)
TestFraction = Annotated[
    str, typer.Option("--test-fraction", metavar="X", help="held out by silos of folder:PATH and heart")
]
TEST_FRACTION = str(fields_of(Run)["test_fraction"].default)
Seed = Annotated[str, typer.Option("--seed", metavar="N", help="seed of the split")]
SEED = str(fields_of(Run)["seed"].default)


def with_table_options(command: Command) -> Command:
    """Give a command all flags about one's own tables; what was given comes as its `tables`, for `tables_of`."""
    flags = parameters_of(_table_options)

    def wrapped(**arguments: Any) -> None:
        tables = {flag.name: arguments.pop(flag.name) for flag in flags}
        command(**arguments, tables=tables)

    return dressed(wrapped, command, [*parameters_of(command, but={"tables"}), *flags])


def _table_options(
    *,
    labels: Labels = LABELS,
    label: Label = LABEL,
    dropped: Dropped = None,
    schema: Schema = SCHEMA,
    scale: Scale = SCALE,
    test_fraction: TestFraction = TEST_FRACTION,
    seed: Seed = SEED,
) -> None:
    """Stand for the flags about one's own tables: their names, types and help."""


def tables_of(labels: str, label: str, dropped: list[str] | None, **more: str) -> Run:
    """Return the run whose options say how one's own tables are read."""
    wanted = {"labels": labels, "label": label, **more}
    if dropped:
        wanted["drop_column"] = joined(dropped)
    return Run(**{key: parse(Run, key, text) for key, text in wanted.items()})
