"""`amity federation ...`: a consortium of organisations, each with its own machine, its own key and its own data."""

from __future__ import annotations

import typer

from amity.cli.federation import check, contracts, members, runs, schema, serving, site_commands, trying
from amity.cli.flags import with_log_options
from amity.cli.help import FederationCommands

app = typer.Typer(
    cls=FederationCommands,
    help="Real federations: a consortium, its members and its runs.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
@with_log_options
def top(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


# One line per file of commands; `amity.cli.help` has the order of the help page.
trying.register(app)
members.register(app)
check.register(app)
serving.register(app)
contracts.register(app)
schema.register(app)
runs.register(app)
site_commands.register(app)
