"""Tables of docs/verdicts.md: how often verdicts are wrong, and how much of a harm they find, from cases."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amity.metric import METRICS
from amity.worth import consortium, judgement, paired, shares
from amity.worth.contents import Judgement, Score
from amity.worth.paired import Difference
from amity.worth.shares import Answers

Array = npt.NDArray[Any]

BINS = ((2.0, 5.0), (5.0, 10.0), (10.0, 20.0), (20.0, 100.0))
SIZES = (25, 50, 100, 300, 1000)  # of test sets


WIDTHS = (0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # points for training, of which the rule has one


class Case(NamedTuple):
    """Two models at one silo: what they say about each test example, and how much better the first truly is."""

    kind: str  # again, copies, mixture, permuted
    study: str
    federation: int
    method: str
    seen: dict[int, Difference]  # on the first so many test examples; a size at which nothing can be said is left out
    points: float  # on the hold-out
    score: Score = "accuracy"


def seen(first: Answers, second: Answers, score: Score) -> dict[int, Difference]:
    """Return the difference of two models on the first 25, 50, ... test examples."""
    sizes = [n for n in SIZES if n <= len(first.truth)]
    found = {n: difference(_first(first, n), _first(second, n), score) for n in sizes}
    return {n: one for n, one in found.items() if not math.isnan(one.points)}


def _first(said: Answers, n: int) -> Answers:
    shares = None if said.probabilities is None else said.probabilities[:n]
    return Answers(said.truth[:n], said.predicted[:n], shares)


def difference(first: Answers, second: Answers, score: Score) -> Difference:
    """Return how much better the first of two models is, with its interval over these examples."""
    if score == "accuracy":
        one, other = (said.predicted == said.truth for said in (first, second))
        return _tango(int((one & ~other).sum()), int((~one & other).sum()), len(one))
    if score == "r2":
        one, other = (said.predicted - said.truth for said in (first, second))
        return paired.of_squares(one, other, float(np.var(first.truth)))
    return shares.compared(score, first, second)[0]


def points_of(first: Answers, second: Answers, score: Score) -> float:
    """Return how much better the first of two models is, without an interval."""
    if score != "r2":
        return difference(first, second, score).points
    one, other = (float(np.square(said.predicted - said.truth).mean()) for said in (first, second))
    return 100 * (other - one) / float(np.var(first.truth))


@cache
def _tango(won: int, lost: int, n: int) -> Difference:
    first, second = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    first[:won], second[won : won + lost] = True, True
    return paired.of_outcomes(first, second)


class Rate:
    """How often something was said."""

    def __init__(self) -> None:
        self.said = self.all = 0

    def add(self, yes: bool) -> None:
        self.said += yes
        self.all += 1

    def __str__(self) -> str:
        return f"{100 * self.said / self.all:.1f} % of {self.all}" if self.all else "–"


def judged(case: Case, n: int, width: float | None = None) -> Judgement:
    """Return the verdict on the first n test examples, by the rule or with another width."""
    own = judgement.TRAINING[case.score]
    return judgement.judged(judgement.widened(case.seen[n], own if width is None else width))[0]


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print(f"\n**{title}**\n\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def show(cases: Sequence[Case]) -> None:
    """Print all tables: those of accuracy and R2 together, which are the usual scores, then those of each other."""
    for usual in (True, False):
        groups: dict[str, list[Case]] = defaultdict(list)
        for case in cases:
            if METRICS[case.score].usual == usual:
                groups["accuracy and R²" if usual else METRICS[case.score].title].append(case)
        for title, found in groups.items():
            print(f"\n## By {title}")
            _show(found)


def _show(cases: Sequence[Case]) -> None:
    null = [case for case in cases if case.kind in ("again", "copies")]
    _false(null)
    _false_by_width(null)
    _by_chance(null)
    _varies(null)
    _flagged("mixture", cases, lambda case: f"{case.method} points")
    _flagged("permuted", cases, _bin)


def _false(null: Sequence[Case]) -> None:
    rates: dict[tuple[str, str, str], dict[int, Rate]] = defaultdict(lambda: defaultdict(Rate))
    for case in null:
        for n in case.seen:
            wrong = judged(case, n) != "no clear difference"
            rates[case.study, case.kind, case.method][n].add(wrong)
            rates["all", "", ""][n].add(wrong)
    head = ["federations", "kind", "method", *(f"{n} test examples" for n in SIZES)]
    table(
        "False verdicts where joining does nothing",
        head,
        ([*key, *(str(found[n]) for n in SIZES)] for key, found in rates.items()),
    )


def _false_by_width(null: Sequence[Case]) -> None:
    rates: dict[tuple[str, str, float], dict[int, Rate]] = defaultdict(lambda: defaultdict(Rate))
    for width, case in itertools.product(WIDTHS, null):
        title = METRICS[case.score].title
        for n in case.seen:
            wrong = judged(case, n, width) != "no clear difference"
            rates[title, case.kind, width][n].add(wrong)
            rates[title, case.kind, width][0].add(wrong)
    table(
        "False verdicts by the points for training",
        ["score", "kind", "points", *(f"{n}" for n in SIZES), "all"],
        (
            [score, kind, f"{width:g}", *(str(found[n]) for n in (*SIZES, 0))]
            for (score, kind, width), found in sorted(rates.items())
        ),
    )


def _by_chance(null: Sequence[Case]) -> None:
    """Print how often a whole federation, in which joining does nothing, is said to gain or lose beyond chance."""
    groups: dict[tuple[int, str, str, int, str], list[Judgement]] = defaultdict(list)
    for case in null:
        for n in case.seen:
            groups[n, case.kind, case.study, case.federation, case.method].append(judged(case, n))
    rates: dict[tuple[str, int], Rate] = defaultdict(Rate)
    for (n, kind, *_), found in groups.items():
        counts = consortium.counted(found)
        beyond = any(consortium.chance_of(k, counts.compared) < consortium.CLEAR for k in (counts.gain, counts.lose))
        rates[kind, n].add(beyond)
    table(
        "Federations said to gain or lose beyond chance",
        ["kind", *(f"{n}" for n in SIZES)],
        ([kind, *(str(rates[kind, n]) for n in SIZES)] for kind in ("again", "copies")),
    )


def _varies(null: Sequence[Case]) -> None:
    points: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in null:
        points[case.study, case.method].append(case.points)
    table(
        "True difference, on the hold-out",
        ["federations", "method", "mean", "deviation"],
        ([*key, f"{np.mean(found):+.2f}", f"{np.std(found):.2f}"] for key, found in points.items()),
    )


def _bin(case: Case) -> str | None:
    return next((f"{low:g} to {high:g} points" for low, high in BINS if low <= -case.points < high), None)


def _flagged(kind: str, cases: Sequence[Case], size: Callable[[Case], str | None]) -> None:
    rates: dict[str, dict[int, Rate]] = defaultdict(lambda: defaultdict(Rate))
    points: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])  # of harm: flagged, and all
    for case in cases:
        name = size(case) if case.kind == kind else None
        if name is None:
            continue
        for n in case.seen:
            flagged = judged(case, n) == "better alone"
            rates[name][n].add(flagged)
            points[n][0] -= flagged * case.points
            points[n][1] -= case.points
    order = sorted(rates, key=lambda name: float(name.split()[0]))
    rows = [[name, *(str(rates[name][n]) for n in SIZES)] for name in order]
    of_all = ["of all points of harm", *(f"{100 * points[n][0] / points[n][1]:.1f} %" for n in SIZES if points[n][1])]
    table(f"Harm that is flagged, {kind}", ["true harm", *(f"{n}" for n in SIZES)], [*rows, of_all] if rows else [])
