"""A small experiment that runs in a second, and ways to watch a runner at work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from listening import recorded

from amity.cli.app import main
from amity.federation.events import Listener, silent
from amity.prepare import Prepared
from amity.trials import Watch

SMALL = """
id = "T1"
title = "A small table"
paper = "Somebody, 2026"

[run]
data = "digits"
setting = "practical"
clients = 5
model = "mlr"
rounds = 2
epochs = 1

[columns.a]
label = "A"
[columns.b]
label = "B"
batch = 10

[rows.separate]
label = "Alone"
[rows.heurfedamp]
[rows.scaffold]
choose.lr = [1e-7, 0.05]
choose_rounds = 1

[paper_values]
separate = { a = 12.34 }

[sizes.quick]
seeds = 2
[sizes.cpu]
columns = ["a"]

[[outputs]]
kind = "table"
[[outputs]]
kind = "wilcoxon"

[[claims]]
text = "alone is better"
above = ["separate"]
below = ["heurfedamp"]
"""

DIVERGES = SMALL.replace('model = "mlr"\nrounds = 2', 'model = "mlp"\nrounds = 10').replace("0.05]", "100.0]")


def command(*words: object) -> int:
    """Return the exit code of `amity` with these words."""
    old, sys.argv = sys.argv, ["amity", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = old
    return 0


def note_runs(calls: list[str]) -> Watch:
    """Return what a runner watches its runs with; it adds a description of each run to `calls`."""

    @contextmanager
    def watch(prepared: Prepared) -> Iterator[Listener]:
        calls.append(repr(prepared.run))
        yield silent

    return watch


@contextmanager
def stop_after_a_round(prepared: Prepared) -> Iterator[Listener]:
    """Let the first round go by, then stop as Ctrl-C does."""

    def stop(line: dict[str, object]) -> None:
        raise KeyboardInterrupt

    yield recorded(stop)


def note_rounds(rounds: list[int]) -> Watch:
    """Return what a runner watches its runs with; it adds the number of each round that is run to `rounds`."""

    @contextmanager
    def watch(prepared: Prepared) -> Iterator[Listener]:
        yield recorded(lambda line: rounds.append(line["round"]))

    return watch
