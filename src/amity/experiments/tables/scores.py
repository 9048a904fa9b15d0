"""Best mean test accuracies, the paper's value beside ours, and what they do not tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from amity import evaluate
from amity.evaluate import Seeds
from amity.experiments.outcome import Outcome
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.experiments.tables.claims import claims
from amity.experiments.tables.layout import NONE, cell, markdown, shown
from amity.metrics import TITLES

LONG = (
    "row",
    "column",
    "paper",
    "bmta",
    "bmta_sd",
    "last",
    "validated",
    "worst",
    "spread",
    "block_score",
    "seeds",
    "chosen",
    "rounds",
    "clients",
    "seconds",
    "peak_gib",
)
"""The columns of a table's CSV file."""


def table(output: Output, results: Results) -> tuple[list[str], list[dict[str, Any]]]:
    rows, columns = results.axes(output)
    experiment = results.experiment
    named = {column: experiment.label("columns", column) for column in columns}
    with_paper = [c for c in columns if any(experiment.reported(row, c) is not None for row in rows)]
    heads = [""] + [text for c in columns for text in ([named[c], "paper"] if c in with_paper else [named[c]])]
    found = {(r, c): evaluate.over_seeds([o.bmta for o in results.seeds(r, c)]) for r in rows for c in columns}
    best = {
        c: max((found[r, c].mean for r in rows if found[r, c].mean == found[r, c].mean), default=0) for c in columns
    }
    body = []
    for row in rows:
        texts = [experiment.label("rows", row)]
        for column in columns:
            summary = found[row, column]
            texts.append(f"**{summary}**" if summary.mean == best[column] else shown(summary))
            if column in with_paper:
                texts.append(_reported(experiment.reported(row, column)))
        body.append(texts)
    parts = [
        f"Best mean test {results.score} over rounds{_bmta(results)}, in percent{_seeds_note(results)}.",
        markdown(heads, body),
        *claims(results, columns),
        *_more(results, rows, columns),
    ]
    return parts, list(_long(results, rows, columns))


def _reported(value: float | str | None) -> str:
    return NONE if value is None else value if isinstance(value, str) else f"{value:.2f}"


def _bmta(results: Results) -> str:
    return " (BMTA)" if results.score == TITLES["accuracy"] else ""


def _seeds_note(results: Results) -> str:
    most = max(len(outcomes) for outcomes in results.outcomes.values())
    return f", mean and standard deviation over up to {most} seeds" if most > 1 else ", one seed"


def _more(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """What BMTA, which selects a round on test data, does not tell."""
    heads = ["", "", "last round", "chosen by validation", "worst silo", "spread", "block score"]
    body = []
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            labels = [results.experiment.label("columns", column), results.experiment.label("rows", row)]
            numbers = [
                evaluate.over_seeds([o.last for o in outcomes]),
                evaluate.over_seeds([o.validated for o in outcomes]),
            ]
            numbers += [evaluate.over_seeds(_at_best(outcomes, key)) for key in ("worst", "spread")]
            score = evaluate.over_seeds([o.block_score for o in outcomes if o.block_score is not None])
            body.append([*labels, *(shown(number) for number in numbers), _score(score)])
    yield "The last round, the round that validation data chose, and the silos at the best round:"
    yield markdown(heads, body)
    if results.chosen:
        texts = [_choice(results, row, column, value) for (row, column), value in results.chosen.items()]
        yield f"Chosen on validation data: {'; '.join(texts)}."


def _choice(results: Results, row: str, column: str, value: Any) -> str:
    experiment = results.experiment
    choice = experiment.cell(results.size, row, column).choice
    option = "" if choice is None else choice.option.removeprefix("set.")
    return f"{experiment.run_label(row, column)} {option} = {value}"


def _score(score: Seeds) -> str:
    return "> 10,000" if score.mean > 10_000 else shown(score)


def _at_best(outcomes: Sequence[Outcome], key: str) -> list[float]:
    values = [outcome.content["best"][key] for outcome in outcomes]
    return [math.nan if value is None else value for value in values]


def _long(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            bmta = evaluate.over_seeds([o.bmta for o in outcomes])
            peaks = [o.content["peak_gib"] for o in outcomes if o.content["peak_gib"] is not None]
            values = (
                row,
                column,
                results.experiment.reported(row, column),
                bmta.mean,
                bmta.deviation,
                evaluate.over_seeds([o.last for o in outcomes]).mean,
                evaluate.over_seeds([o.validated for o in outcomes]).mean,
                evaluate.over_seeds(_at_best(outcomes, "worst")).mean,
                evaluate.over_seeds(_at_best(outcomes, "spread")).mean,
                evaluate.over_seeds([o.block_score for o in outcomes if o.block_score is not None]).mean,
                len(outcomes),
                results.chosen.get((row, column)),
                len(outcomes[0].rounds["round"]),
                len(outcomes[0].silos),
                sum(o.seconds for o in outcomes),
                max(peaks, default=None),
            )
            yield dict(zip(LONG, (cell(value) for value in values), strict=True))
