"""Time, memory and traffic of runs."""

from __future__ import annotations

import math
import statistics

from amity.papers.results import Results
from amity.papers.spec import Output
from amity.papers.tables.layout import NO_VALUE, TableParts, csv_value, markdown

CSV_COLUMNS = ("row", "column", "silos", "rounds", "seconds", "peak_gib", "bytes_up", "bytes_down")
"""The columns of the CSV file."""


def cost(output: Output, results: Results) -> TableParts:
    """Return what runs need: the mean of each number over seeds, and the most memory of any."""
    rows, columns = results.axes(output)
    heads = ["", "silos", "rounds", "minutes", "minutes per round", "peak memory, GiB", "GB up", "GB down"]
    body, lines = [], []
    for row, column in ((row, column) for column in columns for row in rows):
        outcomes = results.seeds(row, column)
        if not outcomes:
            continue
        silos, rounds = len(outcomes[0].silos), len(outcomes[0].rounds["round"])
        seconds = statistics.fmean(one.seconds for one in outcomes)
        up = statistics.fmean(one.content["bytes_up"] for one in outcomes)
        down = statistics.fmean(one.content["bytes_down"] for one in outcomes)
        peak = max((one.content["peak_gib"] for one in outcomes if one.content["peak_gib"] is not None), default=None)
        numbers = [seconds / 60, seconds / 60 / rounds, math.nan if peak is None else peak]
        texts = [NO_VALUE if math.isnan(number) else f"{number:.1f}" for number in numbers]
        texts = [str(silos), str(rounds), *texts, f"{up / 1e9:.2f}", f"{down / 1e9:.2f}"]
        body.append([results.experiment.run_label(row, column), *texts])
        values = (row, column, silos, rounds, seconds, peak, up, down)
        lines.append(dict(zip(CSV_COLUMNS, (csv_value(value) for value in values), strict=True)))
    return TableParts([markdown(heads, body), "Memory is the most that the process held."], lines)
