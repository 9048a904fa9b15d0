"""Time, memory and traffic."""

from __future__ import annotations

import math
import statistics
from typing import Any

from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.experiments.tables.layout import NONE, cell, markdown

COST = ("row", "column", "silos", "rounds", "seconds", "peak_gib", "bytes_up", "bytes_down")
"""The columns of a CSV file about costs."""


def cost(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    """What runs need; of several seeds the mean of each number, of memory the most."""
    rows, columns = results.axes(output)
    heads = ["", "silos", "rounds", "minutes", "minutes per round", "peak memory, GiB", "GB up", "GB down"]
    body, lines = [], []
    for row, column in ((row, column) for column in columns for row in rows):
        outcomes = results.seeds(row, column)
        if not outcomes:
            continue
        silos, rounds = len(outcomes[0].silos), len(outcomes[0].rounds["round"])
        seconds, up, down = (
            statistics.fmean(one.content[key] for one in outcomes) for key in ("seconds", "bytes_up", "bytes_down")
        )
        peak = max((one.content["peak_gib"] for one in outcomes if one.content["peak_gib"] is not None), default=None)
        numbers = [seconds / 60, seconds / 60 / rounds, math.nan if peak is None else peak]
        texts = [NONE if math.isnan(number) else f"{number:.1f}" for number in numbers]
        texts = [str(silos), str(rounds), *texts, f"{up / 1e9:.2f}", f"{down / 1e9:.2f}"]
        body.append([results.experiment.run_label(row, column), *texts])
        values = (row, column, silos, rounds, seconds, peak, up, down)
        lines.append(dict(zip(COST, (cell(value) for value in values), strict=True)))
    return [markdown(heads, body), "Memory is the most that the process held."], lines
