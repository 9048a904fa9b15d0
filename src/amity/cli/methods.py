"""`amity methods`: a line for each method; with a name, one of them in full."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from amity.cli.data import print_problems
from amity.cli.flags import Json, with_log_options

if TYPE_CHECKING:
    from amity.methods import Entry

out = Console()


@with_log_options
def methods_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="methods to show in full", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods, a line each. With NAME, show one in full: paper, traffic and options."""
    from amity.methods import METHODS, entry_of, options_of

    print_problems(METHODS.problems())
    found = {name: entry_of(name) for name in names} if names else dict(METHODS.items())
    if as_json:
        print(json.dumps({name: _row(entry, options_of(name)) for name, entry in found.items()}, indent=1))
    elif names:
        for name, entry in found.items():
            _show(name, entry, options_of(name))
    else:
        width = max(map(len, found))
        for name, entry in found.items():
            home = f"  [dim]({escape(_home(entry))})[/]" if entry.paper != "-" or entry.package else ""
            out.print(f"[bold]{name:<{width}}[/]  {escape(entry.title)}{home}", highlight=False, soft_wrap=True)
        out.print("`amity methods NAME` shows one in full, with its options.", style="dim", highlight=False)


def _home(entry: Entry) -> str:
    """Return where a method comes from."""
    return f"{entry.paper}, of the package {entry.package}" if entry.package else entry.paper


def _row(entry: Entry, options: Sequence[Any]) -> dict[str, Any]:
    return {
        "title": entry.title,
        "paper": entry.paper,
        "evaluated": entry.evaluated,
        "down": entry.down,
        "up": entry.up,
        "package": entry.package,
        "options": options,
    }


def _show(name: str, entry: Entry, options: Sequence[Any]) -> None:
    """Print all that the table says of a method."""
    out.print(f"[bold]{name}[/]  {escape(entry.title)}  [dim]({escape(_home(entry))})[/]", highlight=False)
    out.print(escape(f"  a silo is evaluated with {entry.evaluated}"), highlight=False)
    traffic = f"  traffic of a silo in a round, d numbers in a model: down {entry.down}, up {entry.up}"
    out.print(escape(traffic), highlight=False)
    out.print("  options, given as --set KEY=VALUE:" if options else "  no options", highlight=False)
    for option in options:
        symbol = f" ({option['symbol']})" if option["symbol"] else ""
        text = f"{option['name']}={option['default']}{symbol}: {option['help']}; {option['rule']}"
        out.print("    " + escape(text), highlight=False, style="dim")
