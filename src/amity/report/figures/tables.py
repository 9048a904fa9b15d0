"""The numbers behind each picture of a report, as rows of a csv file; the page's CSV buttons give the same."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from amity.report.contents import CourseView, MethodView, RunView, Scores, View, WeightsView, WorthView

Cell = str | float | None
Rows = list[list[Cell]]
Floats = npt.NDArray[np.float64]

STEPS, UNDEFINED = 65534, 65535  # of `WeightsView.codes`
TIE = 1.5  # even shares that a tie has which stands out
FEW = 40  # silos of which three ties each can be followed; of more, one
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as the text of a csv file. A text that begins like a formula is kept from being one in a sheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return text.getvalue()


def slug(name: str) -> str:
    """Return a name as part of a file's name."""
    return re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-.").lower() or "run"


def differences(worth: WorthView) -> Rows:
    """Return every silo's scores and verdict with one method."""
    head: list[Cell] = ["silo", "examples", "alone", "global", "personal", "difference", "low", "high", "verdict"]
    rows: Rows = [
        [
            *(silo["silo"], silo["examples"], silo["alone"], silo["shared"], silo["personal"]),
            *(silo["difference"], silo["low"], silo["high"], silo["judgement"]),
        ]
        for silo in worth["silos"]
    ]
    return [head, *rows]


def dots(view: View, method: MethodView) -> list[tuple[str, float | None]]:
    """Return name and score of each silo with the models that a method delivers; of each seed where there are more."""
    found = []
    for place in method["runs"]:
        run = view["runs"][place]
        seed = f", seed {run['seed']}" if len(method["runs"]) > 1 else ""
        found += [(silo["name"] + seed, value) for silo, value in zip(view["silos"], run["delivered"], strict=False)]
    return found


def silos(view: View) -> Rows:
    """Return the score of every silo with every method."""
    rows: Rows = [["method", "silo", view["score"]["key"]]]
    for method in view["methods"]:
        found = dots(view, method)
        if any(value is not None for _, value in found):
            rows += [[method["name"], name, value] for name, value in found]
    return rows


SENT = ("bytes_up", "bytes_down", "bytes_eval")


def sent(method: MethodView) -> list[float | None]:
    """Return the bytes that a method has sent over a run, of each kind."""
    found = [method["numbers"].get(key) for key in SENT]
    return [None if value is None else value["mean"] for value in found]


def traffic(view: View) -> Rows:
    """Return the bytes that each method has sent over a run."""
    rows: Rows = [["method", *SENT]]
    return rows + [[method["name"], *sent(method)] for method in view["methods"]]


def over_seeds(view: View, method: MethodView, of: Callable[[CourseView], Scores]) -> dict[int, tuple[float, float]]:
    """Return mean and deviation over seeds at every round that all seeds have measured."""
    courses = [view["runs"][place]["course"] for place in method["runs"]]
    tables = [dict(zip(course["rounds"], of(course), strict=True)) for course in courses]
    common = set.intersection(*(set(table) for table in tables)) if tables else set()
    found = {}
    for round in sorted(common):
        values = [value for table in tables if (value := table[round]) is not None]
        if len(values) == len(tables):
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
            found[round] = (float(np.mean(values)), deviation)
    return found


def curves(view: View, of: Callable[[CourseView], Scores]) -> Rows:
    """Return the curve of every method, a column each."""
    lines = {method["name"]: over_seeds(view, method, of) for method in view["methods"]}
    lines = {name: line for name, line in lines.items() if line}
    rounds = sorted({round for line in lines.values() for round in line})
    rows: Rows = [["round", *lines]]
    return rows + [[round, *(line[round][0] if round in line else None for line in lines.values())] for round in rounds]


def silo_lines(view: View, run: RunView) -> Rows:
    """Return the score of every silo in every round of a run."""
    course, count = run["course"], len(view["silos"])
    rows: Rows = [["round", "mean", *(silo["name"] for silo in view["silos"])]]
    for round, mean, scores in zip(course["rounds"], course["mean"], course["silos"], strict=True):
        rows.append([round, mean, *(scores or [None] * count)])
    return rows


def last_weights(weights: WeightsView) -> Floats:
    """Return the weights of the last round on record; NaN where a silo was not asked.  # [m, m]"""
    m = len(weights["given"])
    codes = np.frombuffer(base64.b64decode(weights["codes"]), "<u2")[-m * m :].reshape(m, m)
    values = weights["low"] + codes * ((weights["high"] - weights["low"]) / STEPS)
    return np.where(codes == UNDEFINED, np.nan, values)


def weights(view: View, found: WeightsView) -> Rows:
    """Return who takes how much from whom in the last round, a row for each silo that takes."""
    names = [silo["name"] for silo in view["silos"]]
    rows: Rows = [["to", *(f"from {name}" for name in names)]]
    for name, row in zip(names, last_weights(found), strict=True):
        rows.append([name, *(None if math.isnan(value) else float(value) for value in row)])
    return rows


def strongest(found: WeightsView) -> list[tuple[int, int, float]]:
    """Return giver, receiver and weight of the ties that stand out in the last round, strongest first.

    Of equal ones the nearest givers are taken: the first silos would look as if everybody listened to them.
    """
    matrix = last_weights(found)
    m = len(matrix)
    most = 3 if m <= FEW else 1
    ties = []
    for receiver, row in enumerate(matrix):
        own = [(giver, receiver, float(value)) for giver, value in enumerate(row) if giver != receiver]
        clear = [tie for tie in own if tie[2] * m >= TIE]
        ties += sorted(clear, key=lambda tie: (-tie[2], (tie[0] - tie[1]) % m))[:most]
    return sorted(ties, key=lambda tie: -tie[2])


def ties(view: View, found: WeightsView) -> Rows:
    """Return the ties that stand out."""
    names = [silo["name"] for silo in view["silos"]]
    rows: Rows = [["from", "to", "weight"]]
    return rows + [[names[giver], names[receiver], value] for giver, receiver, value in strongest(found)]


def class_names(view: View) -> list[str]:
    """Return a name for each class that silos hold; none where nobody tells."""
    most = max((len(silo["held"] or []) for silo in view["silos"]), default=0)
    named = view["classes"] or []
    return [named[place] if place < len(named) else str(place) for place in range(most)]


def holdings(view: View) -> Rows:
    """Return who holds what: examples to train, to choose the round and to test, and by class."""
    classes = class_names(view)
    rows: Rows = [["silo", "group", "train", "val", "test", *(f"class {name}" for name in classes)]]
    for silo in view["silos"]:
        held: list[int | None] = [*(silo["held"] or [])]
        padded = held + [None] * (len(classes) - len(held))
        rows.append([silo["name"], silo["group"], silo["train"], silo["val"], silo["test"], *padded])
    return rows
