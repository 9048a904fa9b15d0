"""`amity advise`: whether to join, with what, and what to expect; found on training data alone."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from amity import logs
from amity.cli import plan
from amity.cli.flags import Config, DataDir, Json, with_log_options, with_run_options
from amity.cli.progress import begin, err
from amity.config.run import Run

if TYPE_CHECKING:
    from amity.advising.answer import Expected

WIDE = 110
"""Letters that the table of silos may take, however narrow the screen is said to be."""

_log = logging.getLogger("amity.cli")


@with_log_options
@with_run_options
def advise_command(
    *,
    probe_rounds: Annotated[
        int | None,
        typer.Option("--probe-rounds", metavar="N", help="rounds of the probe [default: 10, or --rounds if fewer]"),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            "--parts",
            metavar="1-4",
            help="quarters of the training data to judge by, one after the other [default: 4; with many examples 1]",
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", help="begin no further part after this")
    ] = 600.0,
    as_json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
    given: dict[str, str],
) -> None:
    """Say whether silos should join, with which method, and what to expect; ends with the command to run.

    A short probe on training data finds it out: every silo trains alone, with accord and with fedavg, and is judged by
    a part that was left out. Test data are not looked at.
    """
    file = plan.config_of(config)
    begin("looking at the federation")
    (run,) = plan.runs_of(["accord"], given, file, [])
    advise_and_show(run, rounds=probe_rounds, folds=parts, budget=budget, data_dir=data_dir, as_json=as_json)


def advise_and_show(
    run: Run, *, rounds: int | None, folds: int | None, budget: float, data_dir: str | None, as_json: bool
) -> None:
    """Find the advice, showing how it goes on, and print it."""
    from amity.advising import advise

    logs.log_torch()
    advice = advise(run, rounds=rounds, folds=folds, budget=budget, data_dir=data_dir, tell=_tell)
    if as_json:
        print(json.dumps(advice.json(), indent=1, ensure_ascii=False))
        return
    screen = Console()
    screen.width = max(screen.width, WIDE)  # a verdict that is cut off says nothing
    screen.print(_table(advice.silos), "", sep="\n")
    print(advice)


def _table(silos: Sequence[Expected]) -> Table:
    """Return what each silo may expect."""
    table = Table(box=None, pad_edge=False)
    for head in ("Silo", "Examples", "Alone", "Together", "Difference", "95 % interval", "Expected"):
        table.add_column(head, justify="left" if head in ("Silo", "Expected") else "right", no_wrap=True)
    for one in silos:
        points, low, high = one.difference
        interval = f"{_text(low, '+')} to {_text(high, '+')}"
        numbers = [_text(one.alone), _text(one.together), _text(points, "+"), interval]
        table.add_row(escape(one.silo), str(one.examples), *numbers, one.judgement)
    return table


def _tell(words: str) -> None:
    _log.info("%s", words)
    err.print(escape(words), style="dim", highlight=False, soft_wrap=True)


def _text(value: float, sign: str = "") -> str:
    return f"{value:{sign}.1f}" if math.isfinite(value) else "–"
