"""The report's charts, as plotly's own JSON: plain dicts of data and layout. Heat maps are in heatmaps.py.

Plotly reads text as a small HTML, so every name that a user chose is escaped before it goes in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape as quoted
from typing import Any, Literal

from amity.learn.metrics import TITLES
from amity.record import evaluated
from amity.record.contents import Number
from amity.report.series import Series
from amity.report.table import MB, main_score
from amity.statistics import Seeds, mean, over_seeds

Figure = dict[str, Any]
"""A figure, or a part of one, in the schema that plotly has for it."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555")
"""Colours after Okabe and Ito, which colour-blind readers can tell apart too."""
DASHES = ("solid", "dash", "dot", "dashdot")
INK, PALE, ABSENT = "#1f2933", "#e4e7eb", "#d5dae0"
FEW = 10  # rounds that each get a tick of their own: plotly would put ticks between them


def escape(text: str) -> str:
    """Return a text for plotly, which knows no &quot; and would show it as it stands."""
    return quoted(text, quote=False)


def _colour(position: int) -> str:
    return COLOURS[position % len(COLOURS)]


def layout_of(height: int, **more: Any) -> Figure:
    """Return the layout that all figures share, with more of its own."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 16, "t": 12, "b": 8},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        **more,
    }


def axis(title: str = "", **more: Any) -> Figure:
    """Return an axis in the report's style."""
    return {
        "title": {"text": title},
        "automargin": True,
        "gridcolor": PALE,
        "linecolor": "#9aa5b1",
        "zeroline": False,
        **more,
    }


def curves(series: Sequence[Series]) -> Figure:
    """Draw the mean score per round of every method, with a band of its deviation over seeds.

    Of a single run, the score of its worst silo too.
    """
    traces = []
    for position, one in enumerate(series):
        dash = DASHES[position // len(COLOURS) % len(DASHES)]
        traces += _band(one, _colour(position)) if len(one.runs) > 1 else []
        traces.append(_curve(one, "mean", escape(one.name), _colour(position), dash))
    if len(series) == 1 and len(series[0].runs) == 1:
        traces.append(_curve(series[0], "worst", "worst silo", _colour(1), "dot"))
    records = [run for one in series for run in one.runs]
    few = max((line["round"] for record in records for line in record.lines), default=0) <= FEW
    layout = layout_of(
        400,
        xaxis=axis("round", rangemode="tozero", tickformat="d", **({"dtick": 1} if few else {})),
        yaxis=axis(f"mean test {TITLES[main_score(records)]}, %"),
        hovermode="x unified",
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"},
    )
    return {"data": traces, "layout": layout}


def _over_rounds(one: Series, key: Literal["mean", "worst"]) -> dict[int, Seeds]:
    """Return a number of every round that all seeds have measured: a line never jumps from some seeds to others."""
    measured = [{line["round"]: line[key] for line in evaluated(run.lines)} for run in one.runs]
    rounds = sorted(set.intersection(*(set(values) for values in measured)))
    found = {round: [values[round] for values in measured] for round in rounds}
    return {r: over_seeds([math.nan if value is None else value for value in values]) for r, values in found.items()}


def _curve(one: Series, key: Literal["mean", "worst"], name: str, colour: str, dash: str) -> Figure:
    found = _over_rounds(one, key)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(found) <= 30 else "lines",
        "name": name,
        "x": list(found),
        "y": [None if math.isnan(value.mean) else value.mean for value in found.values()],
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"size": 5},
        "hovertemplate": "%{y:.2f} %",
    }


def _band(one: Series, colour: str) -> list[Figure]:
    """Draw the area from the mean less its deviation over seeds to the mean plus it."""
    found = {r: value for r, value in _over_rounds(one, "mean").items() if not math.isnan(value.deviation)}
    edges = [[value.mean + sign * value.deviation for value in found.values()] for sign in (-1, 1)]
    plain = {"type": "scatter", "mode": "lines", "x": list(found), "line": {"width": 0}, "showlegend": False}
    return [
        {**plain, "y": edges[0], "hoverinfo": "skip"},
        {**plain, "y": edges[1], "hoverinfo": "skip", "fill": "tonexty", "fillcolor": colour + "22"},
    ]


def silos(series: Sequence[Series]) -> Figure:
    """Draw every silo's score with the models that are delivered, one box per method, the first on top.

    Over several seeds a natural silo has its mean; silos that every seed deals anew are all there.
    """
    traces = []
    for position, one in enumerate(series):
        names, values = _points(one)
        traces.append(
            {
                "type": "box",
                "orientation": "h",
                "name": escape(one.name),
                "x": values,
                "text": [escape(name) for name in names],
                "boxpoints": "all",
                "jitter": 0.5,
                "pointpos": 0,
                "line": {"color": _colour(position), "width": 1.5},
                "fillcolor": _colour(position) + "22",
                "marker": {"size": 6, "opacity": 0.65, "color": _colour(position)},
                "hovertemplate": "%{text}: %{x:.2f} %<extra></extra>",
                "hoveron": "points",
            }
        )
    records = [run for one in series for run in one.runs]
    layout = layout_of(
        80 + 70 * len(series),
        xaxis=axis(f"test {TITLES[main_score(records)]} of a silo, %"),
        yaxis=axis(autorange="reversed", type="category"),
        showlegend=False,
    )
    return {"data": traces, "layout": layout}


def _points(one: Series) -> tuple[list[str], list[float | None]]:
    """Return names and scores of the dots that stand for a method's silos."""
    if len(one.runs) == 1:
        return one.first.silos, one.first.results["per_client"]
    scores = one.scores()
    if one.same_silos:
        return one.first.silos, [number(mean(list(values))) for values in zip(*scores, strict=True)]
    named = [f"{silo}, seed {seed}" for seed, run in zip(one.seeds, one.runs, strict=True) for silo in run.silos]
    return named, [number(value) for values in scores for value in values]


def number(value: float) -> float | None:
    """Return a number as JSON has it, which knows no NaN and no infinity."""
    return value if math.isfinite(value) else None


def traffic(series: Sequence[Series]) -> Figure:
    """Draw the bytes of a whole run, as the server sees them; of several seeds the mean."""
    names = [escape(one.name) for one in series]
    kinds: dict[Number, str] = {"bytes_up": "up", "bytes_down": "down", "bytes_eval": "evaluation"}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": names,
            "x": [mean([(run.results[key] or 0) / MB for run in one.runs]) for one in series],
            "marker": {"color": colour},
            "hovertemplate": "%{y}, " + kind + ": %{x:,.2f} MB<extra></extra>",
        }
        for (key, kind), colour in zip(kinds.items(), (COLOURS[0], COLOURS[5], "#b0b8c1"), strict=True)
    ]
    layout = layout_of(
        110 + 36 * len(series),
        barmode="stack",
        xaxis=axis("MB", rangemode="tozero"),
        yaxis=axis(autorange="reversed", type="category"),
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )
    return {"data": traces, "layout": layout}
