"""The best mean test accuracies, the paper's value beside ours, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amity import statistics
from amity.learn.metrics import TITLES
from amity.metric import ACCURACY
from amity.papers.results import Results
from amity.papers.spec import Output
from amity.papers.tables.claims import claims
from amity.papers.tables.layout import NO_VALUE, CsvLine, TableParts, csv_value, markdown, score_text
from amity.papers.tables.work import local_work
from amity.statistics import Seeds
from amity.trials import Chosen

CSV_COLUMNS = (
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
"""The columns of the CSV file."""


def table(output: Output, results: Results) -> TableParts:
    """Return the best mean test accuracies with the paper's claims judged, and a line of CSV for every cell."""
    rows, columns = results.axes(output)
    parts = [
        f"Best mean test {results.score} over rounds{_bmta(results)}, in percent{_seeds_note(results)}.",
        _best_means(results, rows, columns),
        *claims(results, columns),
        *local_work(results, rows, columns),
        *_beside_the_best(results, rows, columns),
    ]
    return TableParts(parts, list(_csv_lines(results, rows, columns)))


def _best_means(results: Results, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return the best means of all rows, the paper's value beside ours and the best of a column in bold."""
    experiment = results.experiment
    named = {column: experiment.label("columns", column) for column in columns}
    with_paper = [c for c in columns if any(experiment.reported(row, c) is not None for row in rows)]
    heads = [""] + [text for c in columns for text in ([named[c], "paper"] if c in with_paper else [named[c]])]
    found = {(r, c): statistics.over_seeds([o.bmta for o in results.seeds(r, c)]) for r in rows for c in columns}
    best = {
        c: _best(results, c, [found[r, c].mean for r in rows if found[r, c].mean == found[r, c].mean]) for c in columns
    }
    body = []
    for row in rows:
        texts = [experiment.label("rows", row)]
        for column in columns:
            summary = found[row, column]
            texts.append(f"**{summary}**" if summary.mean == best[column] else score_text(summary))
            if column in with_paper:
                texts.append(_reported(experiment.reported(row, column)))
        body.append(texts)
    return markdown(heads, body)


def _best(results: Results, column: str, means: Sequence[float]) -> float:
    """Return the best of a column's means, by the score that its runs have."""
    metric = next(
        (runs[0].metric for (_, where), runs in results.outcomes.items() if where == column and runs), ACCURACY
    )
    return metric.best(means)


def _reported(value: float | str | None) -> str:
    return NO_VALUE if value is None else value if isinstance(value, str) else f"{value:.2f}"


def _bmta(results: Results) -> str:
    return " (BMTA)" if results.score == TITLES["accuracy"] else ""


def _seeds_note(results: Results) -> str:
    most = max(len(outcomes) for outcomes in results.outcomes.values())
    return f", mean and standard deviation over up to {most} seeds" if most > 1 else ", one seed"


def _beside_the_best(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yield the numbers that the best round, which is chosen on test data, leaves out."""
    heads = ["", "", "last round", "chosen by validation", "worst silo", "spread", "block score"]
    body = []
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            labels = [results.experiment.label("columns", column), results.experiment.label("rows", row)]
            numbers = [
                statistics.over_seeds([o.last for o in outcomes]),
                statistics.over_seeds([o.validated for o in outcomes]),
                statistics.over_seeds([o.worst_at_best for o in outcomes]),
                statistics.over_seeds([o.spread_at_best for o in outcomes]),
            ]
            score = statistics.over_seeds([o.block_score for o in outcomes if o.block_score is not None])
            body.append([*labels, *(score_text(number) for number in numbers), _block_score(score)])
    yield "The last round, the round that validation data chose, and the silos at the best round:"
    yield markdown(heads, body)
    if results.chosen:
        texts = [_choice(results, row, column, choice) for (row, column), choice in results.chosen.items()]
        yield f"Chosen on validation data: {'; '.join(texts)}."


def _choice(results: Results, row: str, column: str, chosen: Chosen[Any]) -> str:
    """Return the chosen value, and those that were better on validation data but with which the run diverged."""
    experiment = results.experiment
    choice = experiment.cell(results.size, row, column).choice
    option = "" if choice is None else choice.option.removeprefix("set.")
    told = f"{experiment.run_label(row, column)} {option} = {chosen.value}"
    if chosen.value in (value for value, _ in chosen.passed_over):
        return f"{told} (with every value the run diverged, with this one it {chosen.passed_over[0][1]})"
    passed = " and ".join(f"{value}, which {diverged}" for value, diverged in chosen.passed_over)
    return f"{told} (first on validation data was {passed})" if passed else told


def _block_score(score: Seeds) -> str:
    return "> 10,000" if score.mean > 10_000 else score_text(score)


def _csv_lines(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[CsvLine]:
    """Yield a line for every cell that is recorded; numbers are means over seeds, and seconds their sum."""
    for column in columns:
        for row in rows:
            outcomes = results.seeds(row, column)
            if not outcomes:
                continue
            bmta = statistics.over_seeds([o.bmta for o in outcomes])
            peaks = [o.content["peak_gib"] for o in outcomes if o.content["peak_gib"] is not None]
            values = (
                row,
                column,
                results.experiment.reported(row, column),
                bmta.mean,
                bmta.deviation,
                statistics.over_seeds([o.last for o in outcomes]).mean,
                statistics.over_seeds([o.validated for o in outcomes]).mean,
                statistics.over_seeds([o.worst_at_best for o in outcomes]).mean,
                statistics.over_seeds([o.spread_at_best for o in outcomes]).mean,
                statistics.over_seeds([o.block_score for o in outcomes if o.block_score is not None]).mean,
                len(outcomes),
                choice.value if (choice := results.chosen.get((row, column))) else None,
                len(outcomes[0].rounds["round"]),
                len(outcomes[0].silos),
                sum(o.seconds for o in outcomes),
                max(peaks, default=None),
            )
            yield dict(zip(CSV_COLUMNS, (csv_value(value) for value in values), strict=True))
