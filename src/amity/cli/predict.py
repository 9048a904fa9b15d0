"""`amity predict`: a silo's personal model in use on new examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity.cli.flags import with_log_options
from amity.errors import InputError

if TYPE_CHECKING:
    from amity.predicting.predictions import Predictions
    from amity.result import Result

SHOWN, LIKELIEST = 20, 5  # rows, and classes of each, that fit on a screen

RunDirectory = Annotated[Path, typer.Argument(metavar="RUN", help="the run's directory", show_default=False)]
SiloName = Annotated[
    str | None, typer.Option("--silo", metavar="NAME", help="whose model; may be left out if there is one silo")
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="COLUMN", help="a column to stand beside the predictions; may be repeated"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print predictions as JSON, for programs")]


@with_log_options
def predict_command(
    run: RunDirectory,
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="FILE", help="csv, parquet, npz, an image or a folder of images", show_default=False
        ),
    ],
    silo: SiloName = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="where all predictions go: csv or parquet")
    ] = None,
    keep: Keep = None,
    as_json: AsJson = False,
) -> None:
    """Use a silo's personal model: a prediction for each example of FILE, with probabilities.

    Columns are found by their names, in any order. Where the label's column is there, predictions are compared with it.
    """
    from amity.learn.threads import one_thread
    from amity.predicting.writing import check_target
    from amity.result import read_run

    if out is not None:
        check_target(out, data)
    result = read_run(run)
    with one_thread():
        found = result.predict(silo_of(result, silo), data, keep=keep or ())
    show(found, out, as_json=as_json)


def silo_of(result: Result, silo: str | None) -> str:
    """Return the silo that was asked for, or the only one there is."""
    silos = result.record.silos
    if silo is None and len(silos) > 1:
        raise InputError(f"the run has {len(silos)} silos: say whose model it is with --silo, such as {silos[0]}")
    return silos[0] if silo is None else silo


def show(found: Predictions, out: Path | None, *, as_json: bool) -> None:
    """Write predictions where they were asked for, and say what there is to say about them."""
    from amity.predicting.predictions import FOR_NEW_ROWS
    from amity.predicting.writing import check_kept, to_dict, write_predictions

    check_kept(found, as_json=as_json)
    if out is not None:
        write_predictions(found, out)
    if as_json:
        print(json.dumps(to_dict(found), allow_nan=False, indent=1))
        return
    console = Console(highlight=False)
    if out is None:
        console.print(_table(found))
        if (more := len(found.values) - SHOWN) > 0:
            console.print(f"and {more} more rows: --out FILE.csv has all of them", soft_wrap=True)
    else:
        console.print(f"{len(found.values)} predictions in {escape(str(out))}", soft_wrap=True)
    if (agreement := found.agreement) is not None:
        console.print(f"{agreement}. {FOR_NEW_ROWS}", soft_wrap=True)
    for note in found.notes:
        console.print(escape(note), soft_wrap=True)


def _table(found: Predictions) -> Table:
    """The first predictions, with the likeliest classes where there are many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("row", justify="right")
    for name in (*found.kept, "prediction"):
        table.add_column(escape(name))
    few = found.labels is not None and len(found.labels) <= LIKELIEST
    for label in (found.labels or ()) if few else ():
        table.add_column(escape(f"p({label})"), justify="right")
    if found.labels is not None and not few:
        table.add_column("probability of the likeliest")
    for row, value in enumerate(found.values[:SHOWN]):
        kept = [escape(column[row]) for column in found.kept.values()]
        said = escape(value) if isinstance(value, str) else f"{value:.6g}"
        table.add_row(str(row), *kept, said, *_shares(found, row, few))
    return table


def _shares(found: Predictions, row: int, few: bool) -> list[str]:
    if found.labels is None or found.probabilities is None:
        return []
    shares = found.probabilities[row]
    if few:
        return [f"{share:.3f}" for share in shares]
    order = shares.argsort()[::-1][:3]
    return [escape(", ".join(f"{found.labels[place]} {shares[place]:.3f}" for place in order))]
