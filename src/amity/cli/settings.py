"""`amity settings`: list the settings, or show what one of them deals to each silo."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from amity.cli.data import print_problems
from amity.cli.flags import with_log_options
from amity.cli.progress import shown_fetching
from amity.cli.table_options import tables_of, with_table_options
from amity.config.options import fields_of
from amity.config.run import Run
from amity.errors import InputError

out = Console()

SHOWN = 12  # classes with a column of their own

_log = logging.getLogger("amity.cli")


def _default(name: str) -> str:
    return str(fields_of(Run)[name].default)


@with_log_options
@with_table_options
def settings_command(
    setting: Annotated[
        str | None,
        typer.Argument(metavar="SETTING", help="look at what NAME or NAME:key=value deals", show_default=False),
    ] = None,
    data: Annotated[str, typer.Option("--data", metavar="TEXT", help="data set")] = _default("data"),
    clients: Annotated[str, typer.Option("--clients", metavar="N|auto", help="number of silos")] = _default("clients"),
    data_dir: Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="where data sets lie")] = None,
    picture: Annotated[str | None, typer.Option("--out", metavar="FILE", help="HTML file for a picture of it")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
    *,
    tables: dict[str, Any],
) -> None:
    """List the settings: how data fall to the silos. With SETTING, deal the data and show who holds what."""
    if setting is None:
        if picture is not None:
            raise InputError("--out needs a SETTING to draw, got none: try amity settings practical --out picture.html")
        _list(as_json)
        return
    _look(tables_of(**tables, setting=setting, data=data, clients=clients), data_dir, picture, as_json)


def _look(run: Run, data_dir: str | None, picture: str | None, as_json: bool) -> None:
    from amity.prepare import silos_of
    from amity.report import write_holdings

    _log.info("dealing %s on %s", run.setting, run.data)
    with shown_fetching() as notify:
        manifest = silos_of(run, data_dir, notify).manifest()
    written = None if picture is None else write_holdings(manifest, picture)
    if written is not None:
        _log.info("wrote %s", written)
    if as_json:
        print(json.dumps(manifest))
        return
    _show(manifest)
    if written is not None:
        print(f"picture: {written}")


def _list(as_json: bool) -> None:
    from amity.data.settings.registry import SETTINGS, options_of

    print_problems(SETTINGS.problems())
    if as_json:
        rows = {
            name: {
                "title": entry.title,
                "paper": entry.paper,
                "description": entry.description,
                "clients": entry.clients,
                "participation": entry.participation,
                "options": options_of(name),
            }
            for name, entry in SETTINGS.items()
        }
        print(json.dumps(rows, indent=1))
        return
    for name, entry in SETTINGS.items():
        paper = f"  [dim]({escape(entry.paper)})[/]" if entry.paper != "-" else ""
        paper += f"  [dim](from {escape(entry.package)})[/]" if entry.package else ""
        out.print(f"[bold]{name}[/]  {escape(entry.description)}{paper}", highlight=False)
        for option in options_of(name):
            symbol = f" ({option['symbol']})" if option["symbol"] else ""
            text = f"{option['name']}={option['default']}{symbol}: {option['help']}; {option['rule']}"
            out.print("    " + escape(text), highlight=False, style="dim")


def _show(manifest: Mapping[str, Any]) -> None:
    """Print how many examples each silo holds, by class where there are few, and what else a reader must know."""
    from amity.data.schema.columns import told

    silos = manifest["silos"]
    labels = manifest.get("labels") or range(manifest["classes"])
    few = 0 < len(labels) <= SHOWN
    more = list(map(str, labels)) if few else ["classes"] if labels else []
    rows = [["silo", "group", "train", "test", *more]]
    for silo in silos:
        counts = silo["train"]
        last = (
            [str(count or "·") for count in counts] if few else [str(sum(count > 0 for count in counts))][: len(more)]
        )
        group = "–" if silo["group"] is None else str(silo["group"])
        rows.append([silo["name"], group, str(sum(counts)), str(sum(silo["test"])), *last])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        print(name.ljust(widths[0]), *(text.rjust(width + 1) for text, width in zip(numbers, widths[1:], strict=True)))
    print(f"{manifest['setting']} on {manifest['data']}")
    if manifest["features"]:
        print(told(manifest["label"], manifest["features"]))
    for note in manifest["notes"]:
        print(f"note: {note}")
    print(f"sha256 {manifest['sha256']}")
