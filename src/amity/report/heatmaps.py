"""Heat maps of the report: who learns from whom, and who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amity.record import Manifest, Record
from amity.report.figures import ABSENT, COLOURS, Figure, axis, escape, layout_of

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
"""The bar that tells what the colours mean."""
NAMED = 24  # silos whose names fit along an axis


def _order(record: Record) -> list[int]:
    """Return the silos with those of one group side by side and those of no group last."""
    groups = record.facts.get("groups")
    if groups is None:
        return list(range(len(record.silos)))
    last = max((group for group in groups if group is not None), default=0) + 1
    places = [last if group is None else group for group in groups]
    return sorted(range(len(places)), key=places.__getitem__)


def _edges(record: Record, order: Sequence[int]) -> list[float]:
    """Return where one group ends and the next begins, between positions on the axis."""
    groups = record.facts.get("groups") or [None] * len(order)
    return [at - 0.5 for at in range(1, len(order)) if groups[order[at]] != groups[order[at - 1]]]


def _scale(matrix: np.ndarray[Any, Any]) -> Figure:
    """Return colours up to the largest weight off the diagonal: what a silo gives itself would drown the rest."""
    size = np.abs(np.nan_to_num(matrix))
    others = size[~np.eye(len(size), dtype=bool)]
    top = float(others.max(initial=0.0)) or float(size.max(initial=0.0)) or 1.0
    if np.nanmin(matrix, initial=0.0) < 0:
        signed = [[0, "#b2182b"], [0.25, "#f4a582"], [0.5, "#f7fbff"], [0.75, "#6baed6"], [1, "#08306b"]]
        return {"colorscale": signed, "zmin": -top, "zmax": top}
    return {"colorscale": [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]], "zmin": 0.0, "zmax": top}


def held(manifest: Manifest) -> list[list[int]]:
    """Return examples of each class at each silo: those to train with, validation among them."""
    return [
        [train + val for train, val in zip(silo["train"], silo["val"] or [0] * len(silo["train"]), strict=True)]
        for silo in manifest["silos"]
    ]


def holdings(manifest: Manifest) -> Figure:
    """Draw who holds what: silos across, classes down, blank where a silo has none of a class."""
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
    layout = layout_of(
        170 + min(20 * len(labels), 480),
        xaxis=axis("silo", tickangle=-45, **_names(heat["x"], silos), **bare),
        yaxis=axis("class", autorange="reversed", **_names(heat["y"], labels), **bare),
        shapes=[_divider(at) for at in _between([silo["group"] for silo in manifest["silos"]])],
    )
    return {"data": [heat], "layout": layout}


def _between(groups: Sequence[int | None]) -> list[float]:
    """Return where consecutive groups meet; none where groups lie scattered, as lines would then be everywhere."""
    edges = [at - 0.5 for at in range(1, len(groups)) if groups[at] != groups[at - 1]]
    return edges if len(edges) == len(set(groups)) - 1 else []


def _divider(at: float) -> Figure:
    line = {"color": COLOURS[1], "width": 1}
    return {"type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _names(values: Sequence[str], names: Sequence[str]) -> Figure:
    """Return an axis of names, where there is room for them: long ones without their middle, as ends differ most."""
    short = [name if len(name) <= 16 else f"{name[:8]}…{name[-7:]}" for name in names]
    return {
        "type": "category",
        "tickvals": values,
        "ticktext": [escape(name) for name in short],
        "showticklabels": len(names) <= NAMED,
        "ticks": "",
    }


def weights(record: Record) -> Figure:
    """Draw who learned from whom in the last recorded round: receivers down, givers across, ordered by group."""
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
    layout = layout_of(
        500,
        plot_bgcolor=ABSENT,
        xaxis=axis(range=[low, high], tickangle=-45, **ticks),
        yaxis=axis(range=[high, low], scaleanchor="x", constraintoward="top", **ticks),
        shapes=_borders(_edges(record, order), low, high),
    )
    return {"data": [heat], "layout": layout}


def _borders(edges: Sequence[float], low: float, high: float) -> list[Figure]:
    line = {"type": "line", "line": {"color": COLOURS[1], "width": 1.5}}
    down = [{**line, "x0": at, "x1": at, "y0": low, "y1": high} for at in edges]
    across = [{**line, "x0": low, "x1": high, "y0": at, "y1": at} for at in edges]
    return [*down, *across]
