"""Progress of a run on the command line: live on a terminal, one line per round elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from amity.run import Prepared

err = Console(stderr=True)


@contextmanager
def shown(ready: Prepared) -> Iterator[tuple[Callable[[str, int, int], None], Callable[[dict[str, Any]], None]]]:
    """Live progress on a terminal; one line per round elsewhere."""
    run = ready.run
    seen: set[str] = set()
    began = time.monotonic()
    first: list[int] = []  # the round this process began with

    def say(what: str, where: str = "") -> None:
        if what not in seen:
            seen.add(what)
            err.print(escape(f"{run.method}{where}: {what}"), highlight=False, soft_wrap=True)

    def warn(line: Mapping[str, Any]) -> None:
        for warning in line["warnings"]:
            say(warning, f", round {line['round']}")

    def waiting(phase: str, done: int, total: int) -> None:
        if phase == "wait":
            say(f"{total - done} of {total} workers have not begun: other work may keep the Ray cluster busy")

    if not err.is_terminal:

        def told(line: dict[str, Any]) -> None:
            warn(line)
            if not first:
                first.append(line["round"])
            done = line["round"] - first[0] + 1
            left = (time.monotonic() - began) / done * (run.rounds - line["round"])
            known = {key: line[key] for key in ("mean", "worst") if line[key] is not None}  # none: not evaluated
            text = "".join(f" {key} {value:.2f}" for key, value in known.items())
            print(f"{run.method} round {line['round']}/{run.rounds}{text} left {left:.0f}s", file=sys.stderr)

        yield waiting, told
        return

    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        TextColumn("round {task.fields[round]}/{task.fields[rounds]}"),
        TextColumn("mean {task.fields[mean]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as bar:
        task = bar.add_task(run.method, total=run.rounds, round=0, rounds=run.rounds, mean="-")
        finished = [0]

        def within(phase: str, done: int, total: int) -> None:
            waiting(phase, done, total)
            if phase == "wait":
                return
            part = done / max(1, total)
            inside = 0.9 * part if phase == "train" else 0.9 + 0.1 * part  # evaluation takes about a tenth
            bar.update(task, completed=finished[0] + min(inside, 0.999))

        def after(line: dict[str, Any]) -> None:
            warn(line)
            finished[0] = line["round"]
            mean: dict[str, Any] = {} if line["mean"] is None else {"mean": f"{line['mean']:.2f} %"}
            bar.update(task, completed=line["round"], round=line["round"], **mean)

        yield within, after
