"""Progress of a run on the command line: live on a terminal, one line per round elsewhere."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from amity.config.run import Run
from amity.federation.events import Event, Listener
from amity.metric import METRICS

err = Console(stderr=True)

_log = logging.getLogger("amity.cli")


def begin(words: str) -> None:
    """Tell somebody at a terminal what is about to happen: loading torch takes seconds until there is more to say."""
    if err.is_terminal and "torch" not in sys.modules:
        err.print(escape(f"amity: {words}"), style="dim", highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print and log a remark that is worth knowing and is no error."""
    _log.info("note: %s", text)
    print_note(text)


def print_note(text: str) -> None:
    """Print a remark that was logged already."""
    err.print(escape(f"note: {text}"), style="dim", highlight=False, soft_wrap=True)


@contextmanager
def shown(run: Run) -> Iterator[Listener]:
    """Give a listener that shows the events of a run: live on a terminal, one line per round elsewhere."""
    if not err.is_terminal:
        yield _Lines(run)
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
        yield _Bar(run, bar)


class _Remarks:
    """Prints what is worth a line of its own: notes, and that workers are awaited. A round's remark comes once."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._said: set[str] = set()

    def __call__(self, event: Event) -> None:
        if event.what == "note" and not event.round:
            print_note(event.words)
        elif event.what == "note":
            self._once(event.words, f", round {event.round}")
        elif event.what == "lost":
            self._once(event.words)
        elif event.what == "waiting" and event.done is not None and event.total is not None:
            late = f"{event.total - event.done} of {event.total} workers have not begun"
            self._once(f"{late}: other work may keep the Ray cluster busy")

    def _once(self, words: str, where: str = "") -> None:
        if words not in self._said:
            self._said.add(words)
            err.print(escape(f"{self._method}{where}: {words}"), highlight=False, soft_wrap=True)


class _Lines:
    """Prints a line for each round that is recorded, with the time that is left if all go on like this."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._remarks = _Remarks(run.method)
        self._began = time.monotonic()
        self._first: int | None = None  # the round this process began with

    def __call__(self, event: Event) -> None:
        self._remarks(event)
        if event.what != "recorded":
            return
        self._first = event.round if self._first is None else self._first
        done = event.round - self._first + 1
        left = (time.monotonic() - self._began) / done * (self._run.all_rounds - event.round)
        scores = f" {event.words}" if event.words else ""  # none: not evaluated
        print(
            f"{self._run.method} round {event.round}/{self._run.all_rounds}{scores} left {left:.0f}s",
            file=sys.stderr,
        )


_EVALUATION = 0.1  # the part of a round that evaluation takes, about
_NEARLY = 0.999  # a round is complete when it is on record, not before


class _Bar:
    """Moves a progress bar on with every silo that has trained or is measured."""

    def __init__(self, run: Run, bar: Progress) -> None:
        self._bar = bar
        self._remarks = _Remarks(run.method)
        self._task = bar.add_task(run.method, total=run.all_rounds, round=0, rounds=run.all_rounds, mean="-")
        self._finished = 0  # rounds
        self._unit = METRICS[run.metric].unit if run.metric in METRICS else "%"

    def __call__(self, event: Event) -> None:
        self._remarks(event)
        if event.what == "round":
            self._finished = event.round - 1
            self._bar.update(self._task, completed=self._finished)
        elif event.what in ("trained", "measured") and event.done is not None:
            part = event.done / max(1, event.total or 0)
            trained = 1 - _EVALUATION
            inside = trained * part if event.what == "trained" else trained + _EVALUATION * part
            self._bar.update(self._task, completed=self._finished + min(inside, _NEARLY))
        elif event.what == "recorded":
            self._finished = event.round
            mean = re.search(r"\bmean (\S+)", event.words)
            scores: dict[str, Any] = {} if mean is None else {"mean": f"{mean[1]} {self._unit}".rstrip()}
            self._bar.update(self._task, completed=event.round, round=event.round, **scores)


@contextmanager
def shown_fetching() -> Iterator[Callable[[str, int, int | None], None]]:
    """Give a listener that shows downloads: a bar on a terminal, one line per file elsewhere."""
    screen = Console(stderr=True)
    seen: dict[str, Any] = {}
    if not screen.is_terminal:

        def told(url: str, done: int, total: int | None) -> None:
            if url not in seen:
                seen[url] = True
                size = f" ({total / 1e6:.1f} MB)" if total else ""
                _log.info("fetching %s%s", url, size)
                print(f"fetching {url}{size}", file=sys.stderr)

        yield told
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=screen) as bar:

        def moved(url: str, done: int, total: int | None) -> None:
            if url not in seen:
                _log.info("fetching %s", url)
                seen[url] = bar.add_task(f"fetching {escape(url)}", total=total)
            bar.update(seen[url], completed=done, total=total)

        yield moved
