"""The command line: `amity ...`. Options come from config.Run; errors are one line and exit code 2."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.main import get_command

from amity import logs
from amity.cli import data, federation
from amity.cli.advise import advise_command
from amity.cli.bench import bench_command
from amity.cli.compare import compare_command
from amity.cli.export import export_command
from amity.cli.flags import with_log_options
from amity.cli.help import CommandGroups, UsualOptions
from amity.cli.methods import methods_command
from amity.cli.predict import predict_command
from amity.cli.refusals import exit_code_of
from amity.cli.report import report_command
from amity.cli.reproduce import reproduce_command
from amity.cli.run import run_command
from amity.cli.settings import settings_command
from amity.cli.signals import stopping
from amity.cli.streams import keep_streams
from amity.cli.tune import tune_command
from amity.cli.watch import watch_command

app = typer.Typer(
    cls=CommandGroups,
    help="Personalised federated learning between silos: one personal model per silo.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
)


@app.callback(invoke_without_command=True)
@with_log_options
def top(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if show_version:
        print(version("amity"))
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command("advise", cls=UsualOptions)(advise_command)
app.command("run", cls=UsualOptions)(run_command)
app.command("compare", cls=UsualOptions)(compare_command)
app.command("tune", cls=UsualOptions)(tune_command)
app.command("report")(report_command)
app.command("watch")(watch_command)
app.command("predict")(predict_command)
app.command("export")(export_command)
app.command("methods")(methods_command)
app.add_typer(data.app, name="data")
app.command("datasets", help="List the data sets (as `amity data list`).")(data.list_command)
app.command("settings")(settings_command)
app.command("reproduce")(reproduce_command)
app.command("bench")(bench_command)
app.add_typer(federation.app, name="federation")


@cache
def command() -> Callable[..., Any]:
    """All commands with their options; made once in a process, however often it is asked for something."""
    return get_command(app)


def main() -> None:
    """Run the command that was given; every error that Amity raises on purpose is one line on stderr, exit code 2."""
    keep_streams()
    with stopping() as stop:
        try:
            code = command()(standalone_mode=False)
            sys.stdout.flush()  # what cannot be written is said now, not by the interpreter when it ends
        except KeyboardInterrupt:
            code = stop.code
        except Exception as error:
            code = exit_code_of(error)
        finally:
            if stop.number is not None:
                code = stop.code
                logging.getLogger("amity.cli").warning("ended by signal %d", stop.number)
            logs.stop()
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
