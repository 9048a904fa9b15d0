"""Methods over many federations: gain recovered, silos harmed, ranks, regret, rounds and traffic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from amity import statistics
from amity.papers.results import Results
from amity.papers.spec import HALVES, Output
from amity.papers.suite import Federation, Place
from amity.papers.tables.layout import NO_VALUE, CsvLine, TableParts, csv_value, markdown
from amity.worth.consortium import WRONG, Counts
from amity.worth.recovered import Mean, harmed

HOW = (
    "Gain recovered: (method - alone) / (all data in one place, then local - alone), of mean scores over silos, every "
    "model trained to its own end; over the federations in which that gain is above 0 beyond chance (paired t-test "
    "over silos, one-sided, 2.5 %). Harmed: silos of all federations that are better alone, by their own examples; "
    f"chance would give up to {100 * WRONG:g} %, which the next column leaves out. First: federations in which a "
    "method has the best mean, or is level with the best (Wilcoxon over silos, Holm-adjusted, 5 %). Below alone: "
    "federations in which its mean is below that of silos alone beyond chance. Rounds: until it has "
    "90 % of its final gain over alone, the ending being the one "
    "after the last; federations without a gain are left out. MB: what a silo sends and receives in a run. {regret}"
)

REGRET = (
    "Regret: what the best method of each federation recovers beyond it. The best one is chosen on test data: regrets "
    "are a little too large."
)

REGRET_OF_ORACLE = (
    "Regret: what the row {oracle} recovers beyond it, which is the best method and rate of each federation by "
    "training examples that were left out of rounds and ending; it stands outside the ranks, and may be wrong: then "
    "regret is below 0."
)

BOLD = "Bold: above or below alone beyond chance, by a paired t-test over silos at 5 %."

SMALL = 0.1
"""Gains below are shown with a further digit."""

MOST_SHOWN = 1000.0
"""Gains beyond are those of models that had diverged."""

HEADS = (
    *("", "federations", "gain recovered, %", "least", "harmed, %", "beyond chance", "mean rank", "first"),
    *("below alone", "regret", "rounds", "MB"),
)

Places = Mapping[str, Mapping[str, Place]]


def suite(output: Output, results: Results) -> TableParts:
    """Return the numbers of every method over the federations of each half, then its share of the gain in each.

    `against` names the row of silos alone, `ceiling` that of all data in one place, `oracle` the one to regret.
    """
    alone, ceiling = ends_of(output)
    oracle = str(output.options.get("oracle", ""))
    rows, columns = results.axes(output)
    found = {column: Federation(results, column, alone, ceiling) for column in columns}
    found = {column: federation for column, federation in found.items() if federation.rows}
    if not found:
        return TableParts([f"Nothing to compare: no column has {alone}, {ceiling} and a method."], [])
    rows = [row for row in rows if any(row in federation.rows for federation in found.values())]
    ranked = [row for row in rows if row != oracle]
    places = {column: federation.places(ranked, oracle) for column, federation in found.items()}
    regret = REGRET_OF_ORACLE.format(oracle=results.experiment.label("rows", oracle)) if oracle else REGRET
    parts = [HOW.format(regret=regret)]
    for title, chosen in _halves(results, list(found)):
        parts += [title, markdown(HEADS, [_summary(results, row, [found[c] for c in chosen], places) for row in rows])]
    parts += ["**Share of the gain recovered in each federation, in percent**", _by_federation(results, found, rows)]
    parts += ["**Gain over alone in each federation, in points (RMSE: in its own unit, positive is better)**"]
    parts += [_gains(results, found, rows), BOLD]
    parts += ["**What the ending adds to the round before it, in the same units**", _endings(results, found, rows)]
    lines = [_csv_line(found[c], row, places[c].get(row)) for c in found for row in rows if row in found[c].rows]
    return TableParts(parts, lines)


def ends_of(output: Output) -> tuple[str, str]:
    """Return the rows that are the ends of the scale: silos alone, and all data in one place."""
    return str(output.options.get("against", "separate")), str(output.options.get("ceiling", "pooled"))


def _halves(results: Results, columns: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the columns of each half with a title; all of them together where none says which half it is of."""
    half = {column: results.experiment.content["columns"][column].get("half") for column in columns}
    if not any(half.values()):
        return [("**All federations**", list(columns))]
    named = [(f"**The {name} half**", [column for column in columns if half[column] == name]) for name in HALVES]
    return [(title, chosen) for title, chosen in named if chosen]


def _summary(results: Results, row: str, federations: Sequence[Federation], places: Places) -> list[str]:
    """Return a method's line: its numbers over the federations in which it is recorded."""
    there = [federation for federation in federations if row in federation.rows]
    label = results.experiment.label("rows", row)
    if not there:
        return [label, f"0 of {len(federations)}", *[NO_VALUE] * (len(HEADS) - 2)]
    shares = [share for one in there if (share := one.recovered(row)["share"]) is not None]
    silos = harmed(Counts(*map(sum, zip(*(one.counts(row) for one in there), strict=True))))
    stands = [place for one in there if (place := places[one.column].get(row)) is not None]
    below = sum(one.over_alone(row).high < 0 for one in there)
    regrets = [place.regret for place in stands]
    numbers = [
        (statistics.mean(shares), 0),
        (min(shares, default=math.nan), 0),
        (_number(silos["share"]), 1),
        (_number(silos["beyond"]), 1),
        (statistics.mean([place.rank for place in stands]), 1),
    ]
    first = f"{sum(place.level for place in stands)} of {len(stands)}" if stands else NO_VALUE
    rest = [
        (statistics.mean(regrets), 0),
        (statistics.mean([one.rounds_needed(row) for one in there]), 1),
        (statistics.mean([one.traffic(row) for one in there]), 1),
    ]
    texts = [*(_text(*number) for number in numbers), first, str(below), *(_text(*number) for number in rest)]
    return [label, f"{len(there)} of {len(federations)}", *texts]


def _by_federation(results: Results, found: Mapping[str, Federation], rows: Sequence[str]) -> str:
    """Return every federation's line: the scores of both ends, and every method's share of what lies between."""
    label = results.experiment.label
    body = []
    for column, federation in found.items():
        metric = federation.metric
        ends = [[run.last for run in results.seeds(row, column)] for row in (federation.alone, federation.ceiling)]
        shares = [_number(federation.recovered(row)["share"]) if row in federation.rows else math.nan for row in rows]
        texts = [metric.digits(statistics.mean(values)) for values in ends]
        body.append([label("columns", column), metric.short, *texts, *(_text(share, 0) for share in shares)])
    one = next(iter(found.values()))
    heads = ["", "score", label("rows", one.alone), label("rows", one.ceiling), *(label("rows", row) for row in rows)]
    return markdown(heads, body)


def _gains(results: Results, found: Mapping[str, Federation], rows: Sequence[str]) -> str:
    """Return every federation's line: what all data in one place and every method gain, bold where it is clear."""
    label = results.experiment.label
    body = []
    for column, federation in found.items():
        gains = [federation.over_alone(row) if row in federation.rows else None for row in rows]
        body.append([label("columns", column), *(_gain(gain) for gain in (federation.whole(), *gains))])
    one = next(iter(found.values()))
    return markdown(["", label("rows", one.ceiling), *(label("rows", row) for row in rows)], body)


def _endings(results: Results, found: Mapping[str, Federation], rows: Sequence[str]) -> str:
    """Return every federation's line: what the ending adds for silos alone, for the pooled model, for every method."""
    label = results.experiment.label
    one = next(iter(found.values()))
    shown = [one.alone, one.ceiling, *rows]
    added = {row: [federation.added(row) for federation in found.values()] for row in shown}
    known = {row: [value for value in values if not math.isnan(value)] for row, values in added.items()}
    body = [
        [label("columns", column), *(_points(added[row][place]) for row in shown)] for place, column in enumerate(found)
    ]
    counts = [f"{sum(value > 0 for value in known[row])} of {len(known[row])}" for row in shown]
    return markdown(["", *(label("rows", row) for row in shown)], [*body, ["adds something in", *counts]])


def _points(points: float) -> str:
    if math.isnan(points):
        return NO_VALUE
    if abs(points) > MOST_SHOWN:
        return f"{'>' if points > 0 else '<'} {math.copysign(MOST_SHOWN, points):+,.0f}"
    return f"{points:+.2f}" if abs(points) >= SMALL else f"{points:+.3f}"


def _gain(gain: Mean | None) -> str:
    if gain is None or math.isnan(gain.points):
        return NO_VALUE
    text = _points(gain.points)
    return f"**{text}**" if gain.low > 0 or gain.high < 0 else text


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _text(value: float, digits: int) -> str:
    return NO_VALUE if math.isnan(value) else f"{value:.{digits}f}"


def _csv_line(federation: Federation, row: str, place: Place | None) -> CsvLine:
    share, silos, counts = federation.recovered(row), federation.harmed(row), federation.counts(row)
    gain = federation.over_alone(row)
    values = {
        "column": federation.column,
        "row": row,
        "seeds": len(federation.seeds(row)),
        "score": federation.metric.key,
        "gain": gain.points,
        "gain_low": gain.low,
        "gain_high": gain.high,
        "recovered": share["share"],
        "whole_gain": share["ceiling"],
        "silos": counts.compared,
        "silos_that_gain": counts.gain,
        "silos_harmed": counts.lose,
        "harmed": silos["share"],
        "harmed_beyond_chance": silos["beyond"],
        "harmed_p": silos["p"],
        "worst": federation.worst(row),
        "rank": None if place is None else place.rank,
        "level_with_best": None if place is None else place.level,
        "regret": None if place is None else place.regret,
        "rounds": federation.rounds_needed(row),
        "mb_per_silo": federation.traffic(row),
    }
    return {key: csv_value(value) for key, value in values.items()}
