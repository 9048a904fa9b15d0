"""The words that an experiment's file may use."""

from __future__ import annotations

from typing import Literal

SIZES = ("quick", "cpu", "paper")

KINDS = {
    "table": "best mean test accuracy, ours beside the paper's",
    "worth": "who gains by joining, silo by silo",
    "wilcoxon": "p-values between all pairs of rows, over silos",
    "cost": "time, memory and traffic",
    "curves": "accuracy or loss against the round",
    "distribution": "how the silos' accuracies are distributed",
    "heatmap": "who learns from whom in the last round",
    "sweep": "accuracy against the value of an option",
    "trajectories": "how the weights of the others change over the rounds",
    "clients": "each silo's accuracy against the round",
    "schedulers": "how APPLE's penalty fades",
    "division": "who holds what",
    "gains": "what each silo gains over training alone",
    "suite": "methods over many federations: gain recovered, silos harmed, ranks, regret, rounds, traffic",
    "suite-map": "the share of the gain recovered, federation by method",
}
"""Kinds of output, and what each of them shows."""

OPTIONS = {
    "worth": ("against", "without"),
    "curves": ("y", "by", "rounds"),
    "sweep": ("xlabel",),
    "trajectories": ("silo",),
    "schedulers": ("rounds", "penalty_rounds"),
    "gains": ("against",),
    "suite": ("against", "ceiling", "oracle"),
    "suite-map": ("against", "ceiling"),
}
"""Options of a kind of output, besides its name, rows and columns."""

Axis = Literal["rows", "columns"]
"""The two directions of an experiment's table."""

Measure = Literal["accuracy", "spread"]
"""The number that a claim compares: the mean over silos, or how far apart silos are, for which lower is better."""

TOP_KEYS = (
    *("id", "title", "paper", "expect", "like", "only_rows", "only_columns"),
    *("run", "columns", "rows", "cells", "paper_values", "sizes", "outputs", "claims"),
)
"""Keys at the top of a file."""

DISPLAY_KEYS = ("label", "value", "series", "half")
"""Keys of a row or column that decide how it is shown."""

BEST_OF = "best_of"
"""Key of a row that is, in each column, another row: of those named, the one that held-out examples have chosen."""

HALVES = ("development", "judging")
"""What a column may be for: methods may be tried and changed on the one half, the other one judges them."""

REPEAT_KEYS = ("set", "seeds", "choose", "choose_rounds")
"""Keys of a table of options that are not options of a run: the method's own options, seeds, values to choose from."""

SIZE_KEYS = ("rows", "columns", "note", "in", "of")
"""Keys of a size besides options."""

OUTPUT_KEYS = ("kind", "name", "rows", "columns")
"""Keys of every output, whatever its kind."""
