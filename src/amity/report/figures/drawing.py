"""The pictures of a report with matplotlib: the same numbers as the page's, for papers and slides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from amity.report.contents import CourseView, RunView, Scores, View, WeightsView, WorthView
from amity.report.figures import tables
from amity.report.figures.colours import ABSENT, COLOURS, INK, MORE, VERDICTS, count_colours, weight_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 7.0  # inches, the text of a paper
NAMED = 40  # silos whose names fit along an edge
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.3, 1, 1.3)))
MARKS = {"gains": "o", "better alone": "s", "no clear difference": "o", "cannot be compared": "x"}


def shorten(name: str, length: int = 24) -> str:
    """Return a name without its middle where it is long, and without mathematics: a dollar is a dollar."""
    short = name if len(name) <= length else f"{name[: length // 2]}…{name[-(length - length // 2 - 1) :]}"
    return short.replace("$", r"\$")


def _page(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDE, height), layout="constrained")
    return figure, figure.add_subplot()


def _pen(place: int) -> dict[str, Any]:
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place // len(COLOURS) % len(DASHES)]}


def _unit(view: View, text: str) -> str:
    unit = view["score"]["unit"]
    return f"{text}, {unit}" if unit else text


def differences(view: View, worth: WorthView) -> Figure:
    """Draw what joining changed for each silo, with intervals around a line at zero; the best on top."""
    silos = sorted(worth["silos"], key=lambda silo: -math.inf if silo["difference"] is None else silo["difference"])
    figure, axes = _page(min(9.0, 0.9 + 0.2 * len(silos)))
    for place, silo in enumerate(silos):
        colour, at = VERDICTS[silo["judgement"]], silo["difference"]
        if silo["low"] is not None and silo["high"] is not None:
            axes.plot([silo["low"], silo["high"]], [place, place], color=colour, linewidth=1.4)
        if at is not None:
            face = "white" if silo["judgement"] == "no clear difference" else colour
            axes.plot([at], [place], MARKS[silo["judgement"]], color=colour, markerfacecolor=face, markersize=4.5)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(
        range(len(silos)), [shorten(silo["silo"]) for silo in silos] if len(silos) <= NAMED else [""] * len(silos)
    )
    axes.grid(visible=False, axis="y")
    score, method = view["score"], shorten(worth["method"], 40)
    axes.set_xlabel(
        f"points of {score['title']}: {method} less alone"
        if score["unit"]
        else f"by how many percent the {score['title']} of {method} is smaller than alone"
    )
    return figure


def silos(view: View) -> Figure | None:
    """Draw each silo as a dot, a row for each method, and the mean as an upright line."""
    found = {method["name"]: tables.dots(view, method) for method in view["methods"]}
    rows = {name: [value for _, value in dots if value is not None] for name, dots in found.items()}
    rows = {name: values for name, values in rows.items() if values}
    if not rows:
        return None
    figure, axes = _page(0.7 + 0.42 * len(rows))
    for place, values in enumerate(rows.values()):
        apart = [((order * 7) % 5 - 2) * 0.07 if len(values) > 6 else 0.0 for order in range(len(values))]
        colour = COLOURS[place % len(COLOURS)]
        axes.scatter(values, [place + shift for shift in apart], s=18, color=colour, alpha=0.6, linewidths=0)
        axes.plot([np.mean(values)] * 2, [place - 0.3, place + 0.3], color=INK, linewidth=1.4)
    axes.set_yticks(range(len(rows)), [shorten(name) for name in rows])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(_unit(view, f"test {view['score']['title']} of a silo"))
    return figure


def traffic(view: View) -> Figure | None:
    """Draw the megabytes that each method has sent."""
    rows = {method["name"]: [(value or 0.0) / 1e6 for value in tables.sent(method)] for method in view["methods"]}
    rows = {name: parts for name, parts in rows.items() if any(parts)}
    if not rows:
        return None
    figure, axes = _page(0.9 + 0.24 * len(rows))
    left = np.zeros(len(rows))
    for kind, (words, colour) in enumerate((("up", COLOURS[0]), ("down", COLOURS[4]), ("only to measure", "#9aa5b1"))):
        part = np.array([parts[kind] for parts in rows.values()])
        axes.barh(range(len(rows)), part, left=left, color=colour, label=words, height=0.6)
        left += part
    axes.set_yticks(range(len(rows)), [shorten(name) for name in rows])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("MB")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def curves(view: View, of: Callable[[CourseView], Scores], title: str) -> Figure | None:
    """Draw the curve of every method, with a band of its deviation over seeds."""
    lines = [(place, method, tables.over_seeds(view, method, of)) for place, method in enumerate(view["methods"])]
    lines = [line for line in lines if line[2]]
    if not lines:
        return None
    figure, axes = _page(3.4)
    for place, method, found in lines:
        rounds, mean = list(found), np.array([value[0] for value in found.values()])
        deviation = np.array([value[1] for value in found.values()])
        marker = "o" if len(rounds) <= 30 else ""
        axes.plot(rounds, mean, marker=marker, markersize=2.5, label=shorten(method["name"]), **_pen(place))
        if np.isfinite(deviation).all():
            axes.fill_between(
                rounds, mean - deviation, mean + deviation, color=COLOURS[place % 8], alpha=0.15, linewidth=0
            )
    _rounds(axes)
    axes.set_ylabel(title)
    figure.legend(loc="outside upper center", ncols=min(5, len(lines)))
    return figure


def _rounds(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    axes.set_xlabel("round")


def silo_lines(view: View, run: RunView) -> Figure | None:
    """Draw one muted line for each silo, the mean over them, and a mark where a silo was dropped or refused."""
    head, *rows = tables.silo_lines(view, run)
    found = np.array([[math.nan if cell is None else float(cell) for cell in row] for row in rows]).reshape(
        -1, len(head)
    )
    found = found[np.isfinite(found[:, 1:]).any(axis=1)]
    if not len(found):
        return None
    figure, axes = _page(3.2)
    for column in range(2, found.shape[1]):
        there = np.isfinite(found[:, column])
        axes.plot(found[there, 0], found[there, column], color="#7b828b", alpha=0.5, linewidth=0.7)
    there = np.isfinite(found[:, 1])
    axes.plot(found[there, 0], found[there, 1], color=INK, linewidth=1.8, label="mean over silos")
    for key, marker in (("dropped", "v"), ("refused", "x")):
        gone = run["course"]["dropped"] if key == "dropped" else run["course"]["refused"]
        at = [round for round, who in zip(run["course"]["rounds"], gone, strict=True) if who]
        low = np.full(len(at), float(np.nanmin(found[:, 1:])))
        if at:
            axes.plot(at, low, marker, color=COLOURS[1], markersize=4, label=f"silos {key}")
    _rounds(axes)
    axes.set_ylabel(_unit(view, f"test {view['score']['title']}"))
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def weights(view: View, found: WeightsView) -> Figure:
    """Draw who takes how much from whom in the last round, groups of alike silos side by side."""
    order = found["given"]
    names = [view["silos"][silo]["name"] for silo in order]
    figure, axes = _page(6.0)
    axes.imshow(weight_colours(tables.last_weights(found)[np.ix_(order, order)]), interpolation="nearest")
    groups = [view["silos"][silo]["group"] for silo in order]
    for at in _borders(groups):
        axes.axhline(at - 0.5, color=INK, linewidth=0.7)
        axes.axvline(at - 0.5, color=INK, linewidth=0.7)
    _named(axes, names, names)
    axes.set_xlabel(f"from (round {found['rounds'][-1]}); grey is an even share, {100 / len(order):.1f} %")
    axes.set_ylabel("to")
    return figure


def _borders(groups: Sequence[int | None]) -> list[int]:
    """Return where groups that lie side by side meet; nowhere where they are scattered."""
    edges = [at for at in range(1, len(groups)) if groups[at] != groups[at - 1]]
    return edges if len(edges) == len(set(groups)) - 1 else []


def _named(axes: Axes, across: Sequence[str], down: Sequence[str]) -> None:
    few = [shorten(name, 16) for name in across] if len(across) <= NAMED else []
    axes.set_xticks(range(len(few)), few, rotation=40, ha="right")
    few = [shorten(name, 20) for name in down] if len(down) <= NAMED else []
    axes.set_yticks(range(len(few)), few)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def ties(view: View, found: WeightsView) -> Figure:
    """Draw the ties that stand out as arrows between silos on a circle."""
    figure, axes = _page(6.0)
    order, m = found["given"], len(found["given"])
    angles = {silo: 2 * math.pi * at / m - math.pi / 2 for at, silo in enumerate(order)}
    places = {silo: (math.cos(angle), -math.sin(angle)) for silo, angle in angles.items()}
    told = tables.strongest(found)
    top = max((value for _, _, value in told), default=1.0)
    for giver, receiver, value in told:
        look = {"arrowstyle": "-|>", "color": MORE, "linewidth": 0.5 + 2 * value / top, "shrinkA": 5, "shrinkB": 6}
        curve = {**look, "connectionstyle": "arc3,rad=0.15", "alpha": 0.35 + 0.6 * value / top}
        axes.annotate("", xy=places[receiver], xytext=places[giver], arrowprops=curve)
    x, y = zip(*places.values(), strict=True)
    axes.scatter(x, y, s=22, color=INK, zorder=3)
    if m <= NAMED:
        for silo, (across, up) in places.items():
            side = "center" if abs(across) < 0.3 else "left" if across > 0 else "right"
            axes.text(
                1.07 * across, 1.07 * up, shorten(view["silos"][silo]["name"], 16), ha=side, va="center", fontsize=7
            )
    if not told:
        axes.text(0, 0, "no tie stands out", ha="center", color=INK)
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.3, 1.3)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return figure


def holdings(view: View) -> Figure | None:
    """Draw who holds what: classes down, silos across, blank where a silo has none of a class."""
    classes = tables.class_names(view)
    silos = [silo for silo in view["silos"] if silo["held"] is not None]
    if not classes or not silos:
        return None
    counts = np.array([silo["held"] for silo in silos], dtype=np.float64).T  # [classes, m]
    figure, axes = _page(max(2.0, min(7.0, 1.2 + 0.22 * len(classes))))
    axes.set_facecolor(ABSENT)
    axes.imshow(count_colours(counts), interpolation="nearest", aspect="auto")
    for at in _borders([silo["group"] for silo in silos]):
        axes.axvline(at - 0.5, color=INK, linewidth=0.7)
    _named(axes, [silo["name"] for silo in silos], classes)
    axes.set_ylabel("class")
    return figure
