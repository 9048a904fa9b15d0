"""Help pages in groups: commands by what people do, and of long commands the usual options first.

`amity run -h` shows the options that most runs need, `amity run --help-all` every one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "Train and compare": ("advise", "run", "compare", "tune"),
    "Look at results, and use them": ("report", "watch", "predict", "export"),
    "Data": ("data", "datasets", "settings"),
    "Methods and papers": ("methods", "reproduce"),
    "Between organisations": ("federation",),
    "For developers": ("bench",),
}
"""Commands in the order of `amity --help`."""

DATA: Mapping[str, tuple[str, ...]] = {"Commands": ("list", "fetch", "verify", "schema")}
"""Commands of `amity data`."""

FEDERATION: Mapping[str, tuple[str, ...]] = {
    "See it work": ("try",),
    "A consortium and its members": ("init", "join", "add", "renew", "remove"),
    "The two services": ("check", "server", "silo"),
    "Agree on a run": ("schema", "submit", "contract", "approve"),
    "While it goes on, and afterwards": ("status", "logs", "stop", "leave", "results", "audit"),
    "At a silo, with its model": ("verdict", "predict", "export"),
}
"""Commands of `amity federation`."""

USUAL: Mapping[str, tuple[str, ...]] = {
    "Data": ("--data", "--label", "--setting", "--clients"),
    "Training": ("--rounds", "--epochs", "--lr", "--model", "--set", "--metric", "--class-weights"),
    "Search": ("--search", "--trials", "--timeout", "--trial-rounds"),
    "Probe": ("--probe-rounds", "--parts", "--budget"),
    "Who takes part": ("--participation", "--drop"),
    "Output": ("--out", "--seed", "--seeds", "--alone", "--watch", "--resume", "--json"),
}
"""Options on the short page of a command that trains, in their groups."""

HELP = ("-h", "--help", "--help-all")

_LONG = 200  # letters of a command's first sentence: longer ones are cut off

_ALL = "amity.cli.help.all"  # whether a context's help page has every option

Row = tuple[str, str]


def help_all(context: typer.Context, wanted: bool) -> None:
    """Print the page with every option, where it is asked for, and end the command."""
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        print(context.get_help())
        raise typer.Exit


class CommandGroups(TyperGroup):
    """A group whose help lists its commands by what people do."""

    groups = COMMANDS

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group of commands; what is in none comes last."""
        shown = {name: command for name, command in self.commands.items() if not command.hidden}
        rows = {name: (name, command.get_short_help_str(_LONG)) for name, command in shown.items()}
        _write(formatter, _grouped(self.groups, rows, "More"))


class DataCommands(CommandGroups):
    """The commands about data, each with its whole sentence."""

    groups = DATA


class FederationCommands(CommandGroups):
    """The commands of a federation, in the order in which people need them."""

    groups = FEDERATION


class UsualOptions(TyperCommand):
    """A command whose help shows its usual options, and all of them with --help-all."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then a section for each group of options."""
        arguments: list[Row] = []
        rows: dict[str, Row] = {}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is not None and param.param_type_name == "argument":
                arguments.append(row)
            elif row is not None:
                rows[param.opts[0]] = row
        groups = {**USUAL, "Help": HELP}
        more = "More" if ctx.meta.get(_ALL) else None
        _write(formatter, [("Arguments", arguments), *_grouped(groups, rows, more)])


def _grouped(
    groups: Mapping[str, Sequence[str]], rows: Mapping[str, Row], more: str | None
) -> Iterator[tuple[str, list[Row]]]:
    """Give the rows of every group in its order, then those of none under the title `more`, where it is given."""
    *first, last = groups
    listed = {name for names in groups.values() for name in names}
    others = [row for name, row in rows.items() if name not in listed]
    for title in first:
        yield title, [rows[name] for name in groups[title] if name in rows]
    if more is not None:
        yield more, others
    yield last, [rows[name] for name in groups[last] if name in rows]


def _write(formatter: Any, sections: Iterable[tuple[str, Sequence[Row]]]) -> None:
    """Write the sections that are not empty."""
    for title, rows in sections:
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
