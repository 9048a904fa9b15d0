"""The report's figures, as plotly's own JSON: plain dicts of data and layout.

Plotly reads text as a small HTML, so every name that a user chose is escaped before it goes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape as quoted
from typing import Any

import numpy as np

from amity.metrics import TITLES
from amity.record import Record, evaluated
from amity.report.table import MB, labels, main_score

Figure = dict[str, Any]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#555555")
"""After Okabe and Ito: told apart also by colour-blind readers."""
DASHES = ("solid", "dash", "dot", "dashdot")
INK, PALE, ABSENT = "#1f2933", "#e4e7eb", "#d5dae0"
BAR = {
    "orientation": "h",
    "y": 1.02,
    "yanchor": "bottom",
    "len": 0.8,
    "thickness": 10,
    "outlinewidth": 0,
    "tickformat": ".2~g",
    "nticks": 5,
}
NAMED = 24  # silos whose names fit along an axis
FEW = 10  # rounds that each get a tick of their own: plotly would put ticks between them


def escape(text: str) -> str:
    """A text for plotly, which knows no &quot; and would show it as it stands."""
    return quoted(text, quote=False)


def _colour(position: int) -> str:
    return COLOURS[position % len(COLOURS)]


def _layout(height: int, **more: Any) -> Figure:
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 16, "t": 12, "b": 8},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        **more,
    }


def _axis(title: str = "", **more: Any) -> Figure:
    return {
        "title": {"text": title},
        "automargin": True,
        "gridcolor": PALE,
        "linecolor": "#9aa5b1",
        "zeroline": False,
        **more,
    }


def curves(records: Sequence[Record]) -> Figure:
    """Mean score per round of every run; of a single run also that of its worst silo."""
    traces = []
    for position, (name, record) in enumerate(zip(labels(records), records, strict=True)):
        dash = DASHES[position // len(COLOURS) % len(DASHES)]
        traces.append(_curve(record, "mean", escape(name), _colour(position), dash))
    if len(records) == 1:
        traces.append(_curve(records[0], "worst", "worst silo", _colour(1), "dot"))
    few = max((line["round"] for record in records for line in record.lines), default=0) <= FEW
    layout = _layout(
        400,
        xaxis=_axis("round", rangemode="tozero", tickformat="d", **({"dtick": 1} if few else {})),
        yaxis=_axis(f"mean test {TITLES[main_score(records)]}, %"),
        hovermode="x unified",
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"},
    )
    return {"data": traces, "layout": layout}


def _curve(record: Record, key: str, name: str, colour: str, dash: str) -> Figure:
    lines = evaluated(record.lines)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(lines) <= 30 else "lines",
        "name": name,
        "x": [line["round"] for line in lines],
        "y": [line[key] for line in lines],
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"size": 5},
        "hovertemplate": "%{y:.2f} %",
    }


def silos(records: Sequence[Record]) -> Figure:
    """Every silo's score at the best round of its run, one box per run, the first run on top."""
    traces = [
        {
            "type": "box",
            "orientation": "h",
            "name": escape(name),
            "x": record.results["per_client"],
            "text": [escape(silo) for silo in record.silos],
            "boxpoints": "all",
            "jitter": 0.5,
            "pointpos": 0,
            "line": {"color": _colour(position), "width": 1.5},
            "fillcolor": _colour(position) + "22",
            "marker": {"size": 6, "opacity": 0.65, "color": _colour(position)},
            "hovertemplate": "%{text}: %{x:.2f} %<extra></extra>",
            "hoveron": "points",
        }
        for position, (name, record) in enumerate(zip(labels(records), records, strict=True))
    ]
    layout = _layout(
        80 + 70 * len(records),
        xaxis=_axis(f"test {TITLES[main_score(records)]} of a silo, %"),
        yaxis=_axis(autorange="reversed", type="category"),
        showlegend=False,
    )
    return {"data": traces, "layout": layout}


def traffic(records: Sequence[Record]) -> Figure:
    """Bytes over the whole run, as the server sees them."""
    names = [escape(name) for name in labels(records)]
    kinds = {"bytes_up": "up", "bytes_down": "down", "bytes_eval": "evaluation"}
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": names,
            "x": [record.results[key] / MB for record in records],
            "marker": {"color": colour},
            "hovertemplate": "%{y}, " + kind + ": %{x:,.2f} MB<extra></extra>",
        }
        for (key, kind), colour in zip(kinds.items(), (COLOURS[0], COLOURS[5], "#b0b8c1"), strict=True)
    ]
    layout = _layout(
        110 + 36 * len(records),
        barmode="stack",
        xaxis=_axis("MB", rangemode="tozero"),
        yaxis=_axis(autorange="reversed", type="category"),
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
    )
    return {"data": traces, "layout": layout}


def _order(record: Record) -> list[int]:
    """Silos of one group side by side; those of no group last."""
    groups = record.facts.get("groups")
    if groups is None:
        return list(range(len(record.silos)))
    last = max((group for group in groups if group is not None), default=0) + 1
    return sorted(range(len(groups)), key=lambda silo: last if groups[silo] is None else groups[silo])


def _edges(record: Record, order: Sequence[int]) -> list[float]:
    """Where one group ends and the next begins, between positions on the axis."""
    groups = record.facts.get("groups") or [None] * len(order)
    return [at - 0.5 for at in range(1, len(order)) if groups[order[at]] != groups[order[at - 1]]]


def _scale(matrix: np.ndarray[Any, Any]) -> Figure:
    """Colours, up to the largest weight off the diagonal: what a silo gives itself would drown the rest."""
    size = np.abs(np.nan_to_num(matrix))
    others = size[~np.eye(len(size), dtype=bool)]
    top = float(others.max(initial=0.0)) or float(size.max(initial=0.0)) or 1.0
    if np.nanmin(matrix, initial=0.0) < 0:
        signed = [[0, "#b2182b"], [0.25, "#f4a582"], [0.5, "#f7fbff"], [0.75, "#6baed6"], [1, "#08306b"]]
        return {"colorscale": signed, "zmin": -top, "zmax": top}
    return {"colorscale": [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]], "zmin": 0.0, "zmax": top}


def held(manifest: Mapping[str, Any]) -> list[list[int]]:
    """Examples of each class at each silo: those to train with, validation among them."""
    return [
        [train + val for train, val in zip(silo["train"], silo["val"] or [0] * len(silo["train"]), strict=True)]
        for silo in manifest["silos"]
    ]


def holdings(manifest: Mapping[str, Any]) -> Figure:
    """Who holds what: silos across, classes down, blank where a silo has none of a class."""
    counts = held(manifest)
    silos = [silo["name"] for silo in manifest["silos"]]
    numbers = range(len(counts[0])) if manifest["classes"] else ["any"]
    labels = [str(label) for label in manifest.get("labels") or numbers]
    of_class = list(zip(*counts, strict=True))  # [classes][m]
    tested = list(zip(*(silo["test"] for silo in manifest["silos"]), strict=True))
    top = max(max(row) for row in counts) or 1
    ticks = sorted({1, round(top / 16), round(top / 4), top} - {0})
    heat = {
        "type": "heatmap",
        # Roots: beside a silo with 80 % of a class, one with 1 % is still seen.
        "z": [[count**0.5 if count else None for count in row] for row in of_class],
        "x": [escape(silo) for silo in silos],
        "y": [escape(label) for label in labels],
        "customdata": [[list(pair) for pair in zip(*both, strict=True)] for both in zip(of_class, tested, strict=True)],
        "hovertemplate": "%{x}, class %{y}: %{customdata[0]} to train, %{customdata[1]} to test<extra></extra>",
        "hoverongaps": False,
        "colorscale": [[0, "#deebf7"], [0.5, "#6baed6"], [1, "#08306b"]],
        "zmin": 0.0,
        "zmax": top**0.5,
        "colorbar": {**BAR, "tickvals": [tick**0.5 for tick in ticks], "ticktext": [f"{tick:,}" for tick in ticks]},
    }
    bare: Figure = {"showgrid": False, "showline": False}
    layout = _layout(
        170 + min(20 * len(labels), 480),
        xaxis=_axis("silo", tickangle=-45, **_names(heat["x"], silos), **bare),
        yaxis=_axis("class", autorange="reversed", **_names(heat["y"], labels), **bare),
        shapes=[_divider(at) for at in _between([silo["group"] for silo in manifest["silos"]])],
    )
    return {"data": [heat], "layout": layout}


def _between(groups: Sequence[int | None]) -> list[float]:
    """Where consecutive groups meet; none where groups lie scattered, as lines would then be everywhere."""
    edges = [at - 0.5 for at in range(1, len(groups)) if groups[at] != groups[at - 1]]
    return edges if len(edges) == len(set(groups)) - 1 else []


def _divider(at: float) -> Figure:
    line = {"color": COLOURS[1], "width": 1}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _names(values: Sequence[str], names: Sequence[str]) -> Figure:
    """An axis of names, where there is room for them: long ones without their middle, as names differ at their ends."""
    short = [name if len(name) <= 16 else f"{name[:8]}…{name[-7:]}" for name in names]
    return {
        "type": "category",
        "tickvals": values,
        "ticktext": [escape(name) for name in short],
        "showticklabels": len(names) <= NAMED,
        "ticks": "",
    }


def weights(record: Record) -> Figure:
    """Who learned from whom in the last recorded round: receivers down, givers across, ordered by group."""
    order = _order(record)
    count = len(order)
    matrix = record.weights[max(record.weights)][np.ix_(order, order)].astype(np.float64)
    matrix[~np.isfinite(matrix)] = np.nan  # of a run that diverged: no colour could tell
    groups = record.facts.get("groups") or [None] * count
    told = ["" if groups[silo] is None else f" (group {groups[silo]})" for silo in order]
    names = [escape(record.silos[silo]) + group for silo, group in zip(order, told, strict=True)]
    named = count <= NAMED
    heat = {
        "type": "heatmap",
        "z": [[None if np.isnan(value) else value for value in row] for row in matrix.tolist()],
        "x": names,
        "y": names,
        "hovertemplate": "%{y}<br>from %{x}: %{z:.4f}<extra></extra>",
        "hoverongaps": False,
        "xgap": int(named),
        "ygap": int(named),
        "colorbar": BAR,
        **_scale(matrix),
    }
    ticks: Figure = {
        **_names(names, [record.silos[silo] for silo in order]),
        "showgrid": False,
        "showline": False,
        "constrain": "domain",
    }
    low, high = -0.5, count - 0.5
    layout = _layout(
        500,
        plot_bgcolor=ABSENT,
        xaxis=_axis(range=[low, high], tickangle=-45, **ticks),
        yaxis=_axis(range=[high, low], scaleanchor="x", constraintoward="top", **ticks),
        shapes=_borders(_edges(record, order), low, high),
    )
    return {"data": [heat], "layout": layout}


def _borders(edges: Sequence[float], low: float, high: float) -> list[Figure]:
    line = {"type": "line", "line": {"color": COLOURS[1], "width": 1.5}}
    down = [{**line, "x0": at, "x1": at, "y0": low, "y1": high} for at in edges]
    across = [{**line, "x0": low, "x1": high, "y0": at, "y1": at} for at in edges]
    return [*down, *across]
