"""The local work behind the numbers of a table, where it is not one training per silo and round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amity import statistics
from amity.methods import METHODS
from amity.papers.outcome import Outcome
from amity.papers.results import Results
from amity.papers.tables.layout import joined_names


def local_work(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yield a paragraph on rows that do more local work than others; none where all do the same."""
    runs = {row: [run for column in columns for run in results.seeds(row, column)] for row in rows}
    first = {results.experiment.label("rows", row): found[0] for row, found in runs.items() if found}
    told = [*_trained_once_more(results, rows, columns), *_steps(first), *_rounds(first)]
    if told:
        yield f"Local work. {' '.join(told)}"


def _trained_once_more(results: Results, rows: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yield which rows train before every evaluation, and what they reach with as many trainings as the others."""
    label = results.experiment.label
    found = {
        row: {column: runs for column in columns if (runs := results.seeds(row, column)) and runs[0].trainings_ahead}
        for row in rows
    }
    ahead = {row: of for row, of in found.items() if of}
    if not ahead or len(ahead) == sum(any(results.seeds(row, column) for column in columns) for row in rows):
        return
    names = [label("rows", row) for row in ahead]
    train = "trains" if len(names) == 1 else "train"
    yield (
        f"{joined_names(names)} {train} once more before every evaluation, at every silo, "
        "also at one that dropped out of the round."
    )
    reached = {
        row: [text for column, runs in of.items() if (text := _reached(results, column, runs))]
        for row, of in ahead.items()
    }
    told = [f"{label('rows', row)} {', '.join(texts)}" for row, texts in reached.items() if texts]
    if told:
        yield f"With as many trainings as the others, so up to the round before the last: {'; '.join(told)}."
    if any(len(reached[row]) < len(of) for row, of in ahead.items()):
        where = "elsewhere" if told else "here"
        yield f"The round before the last, with as many trainings as the others had, was not evaluated {where}."


def _reached(results: Results, column: str, runs: Sequence[Outcome]) -> str:
    """Return the best mean at equal work as text; empty where that round was not evaluated."""
    before = [run.best_until(run.last_round - run.trainings_ahead) for run in runs]
    means = [at.mean for at in before if at is not None]
    where = results.experiment.label("columns", column)
    return f"{statistics.over_seeds(means)} on {where}" if len(means) == len(runs) else ""


def _steps(first: dict[str, Outcome]) -> Iterator[str]:
    """Yield which rows take a step of gradient descent before every evaluation."""
    names = [
        name
        for name, run in first.items()
        if METHODS[run.method].for_evaluation == "step" and _evaluates_personal_model(run)
    ]
    if names and len(names) < len(first):
        yield f"A step of gradient descent before every evaluation: {joined_names(names)}."


def _evaluates_personal_model(run: Outcome) -> bool:
    return bool(run.content["asked"].get("set", {}).get("eval_model") != "global")


def _rounds(first: dict[str, Outcome]) -> Iterator[str]:
    """Yield what each row does in a round, where rows differ in it."""
    texts = {name: METHODS[run.method].each_round for name, run in first.items()}
    if len(set(texts.values())) > 1:
        yield f"In a round: {'; '.join(f'{name} {text}' for name, text in texts.items() if text)}."
