"""`amity methods`: the methods, with paper and options."""

from __future__ import annotations

import json

from rich.console import Console
from rich.markup import escape

from amity.cli.data import print_problems
from amity.cli.flags import Json, with_log_options

out = Console()


@with_log_options
def methods_command(as_json: Json = False) -> None:
    """List the methods, with paper and options."""
    from amity.methods import METHODS, options_of

    print_problems(METHODS.problems())
    if as_json:
        rows = {
            name: {
                "title": entry.title,
                "paper": entry.paper,
                "evaluated": entry.evaluated,
                "down": entry.down,
                "up": entry.up,
                "package": entry.package,
                "options": options_of(name),
            }
            for name, entry in METHODS.items()
        }
        print(json.dumps(rows, indent=1))
        return
    for name, entry in METHODS.items():
        home = f"{entry.paper}, of the package {entry.package}" if entry.package else entry.paper
        out.print(f"[bold]{name}[/]  {escape(entry.title)}  [dim]({escape(home)})[/]", highlight=False)
        for option in options_of(name):
            symbol = f" ({option['symbol']})" if option["symbol"] else ""
            text = f"{option['name']}={option['default']}{symbol}: {option['help']}; {option['rule']}"
            out.print("    " + escape(text), highlight=False, style="dim")
