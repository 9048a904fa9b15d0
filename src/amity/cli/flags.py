"""Flags that several commands share: one per option of a run, and those for logs."""

from __future__ import annotations

import inspect
import logging
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

import typer

from amity import logs
from amity.cli.help import help_all
from amity.config.options import describe, names_of
from amity.config.run import Run

Config = Annotated[str | None, typer.Option("--config", metavar="FILE", help="TOML file with the same keys; flags win")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a method's own option; may be repeated")
]
Out = Annotated[str | None, typer.Option("--out", metavar="DIR", help="directory to write to [default: runs/...]")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="continue the run in --out from its checkpoint; with more --rounds, schedules stay as begun"
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        "--seeds", metavar="A:B|A,B,...", help="run once with each seed, 0:5 for 0 to 4: mean and deviation over them"
    ),
]
Force = Annotated[bool, typer.Option("--force", help="replace the run that --out holds")]
Alone = Annotated[
    bool,
    typer.Option(
        "--alone/--no-alone",
        help="also let every silo train alone, to find out whether joining is worth it for each",
    ),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="log every round to tensorboard or mlflow; may be repeated",
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="where data sets lie [default: $AMITY_DATA, ./data, user cache]"),
]
Json = Annotated[bool, typer.Option("--json", help="for programs")]
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help=f"log what happens, from this level on: {', '.join(logs.LEVELS)} [default: {logs.DEFAULT} if --log-file]",
    ),
]
LogFile = Annotated[
    str | None, typer.Option("--log-file", metavar="FILE", help="append the log to this file [default: standard error]")
]

HelpAll = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=help_all, help="show every option, also the rare ones"),
]

Command = Callable[..., None]


def with_run_options(command: Command) -> Command:
    """Give a command one flag per option of a run; it receives those that were given as a dict of texts.

    A flag that the command has itself takes the place of the run's.
    """
    own = {parameter.name for parameter in parameters_of(command)}
    entries = {entry["name"]: entry for entry in describe(Run) if entry["name"] not in {"method", *own}}

    def wrapped(*, help_all: bool, **arguments: Any) -> None:  # which has been answered before anything else
        given = {name: joined(text) for name in entries if (text := arguments.pop(name)) is not None}
        command(given=given, **arguments)

    kept = [parameter for parameter in parameters_of(command) if parameter.name != "given"]
    flags = [_flag(name, entry) for name, entry in entries.items()]
    return dressed(wrapped, command, [*kept, *flags, *parameters_of(_help_options)])


def _help_options(*, help_all: HelpAll = False) -> None:
    """Stand for the flag that shows the whole help of a command: its name, type and help."""


def with_log_options(command: Command) -> Command:
    """Give a command --log-level and --log-file, and log to where they say from its beginning on."""
    own = parameters_of(command)
    wants_context = any(parameter.name == "context" for parameter in own)

    def wrapped(*, context: typer.Context, log_level: str | None, log_file: str | None, **arguments: Any) -> None:
        _listen(context, log_level, log_file)
        command(**arguments, **({"context": context} if wants_context else {}))

    return dressed(wrapped, command, [*own, *parameters_of(_log_options, but={one.name for one in own})])


def _log_options(*, context: typer.Context, log_level: LogLevel = None, log_file: LogFile = None) -> None:
    """Stand for the flags of every command: their names, types and help."""


def _listen(context: typer.Context, level: str | None, file: str | None) -> None:
    """Start the log; before a command's name, only keep what was given until that command's own flags are known."""
    wanted: dict[str, str] = context.find_root().ensure_object(dict)
    if level is not None:
        wanted["level"] = logs.check_level(level)
    if file is not None:
        wanted["file"] = file
    if wanted and context.invoked_subcommand is None:
        logs.start(**wanted)
        logging.getLogger("amity.cli").info("command: %s", shlex.join(["amity", *sys.argv[1:]]))


def joined(texts: str | list[str]) -> str:
    """Return one comma list of all that a repeated flag was given."""
    return texts if isinstance(texts, str) else ",".join(texts)


def _flag(name: str, entry: Mapping[str, Any]) -> inspect.Parameter:
    """Return an option of a run as the parameter of a command."""
    words = typer.Option(
        "--" + name.replace("_", "-"),
        help=f"{entry['help']} [default: {entry['default']}]",
        metavar=entry["takes"],
    )
    kind = list[str] if name in names_of(Run, lambda role: role.repeatable) else str
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, words])


def parameters_of(command: Command, but: Collection[str] = ()) -> list[inspect.Parameter]:
    """Return the parameters of a command, by name alone."""
    found = inspect.signature(command, eval_str=True).parameters.values()
    return [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in found if one.name not in but]


def dressed(wrapped: Command, command: Command, parameters: list[inspect.Parameter]) -> Command:
    """Return the wrapper with the name and help of the command, and with these parameters for typer to read."""
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped
