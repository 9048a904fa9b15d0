"""The paragraphs about the numbers: their source, what was scaled down, what is missing, what the runs warned of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from amity.papers.results import Results


def heading(results: Results) -> list[str]:
    """Return the paragraphs that a reader must know beside the numbers; the first names their source."""
    experiment, size = results.experiment, results.size
    done = sum(len(outcomes) for outcomes in results.outcomes.values())
    planned = sum(cell.seeds for cell in experiment.cells(size))
    source = "Our own experiment" if experiment.ours else experiment.paper
    parts = [f"{source}. `amity reproduce {experiment.name} --size {size}`."]
    if experiment.note(size):
        parts.append(f"Size `{size}`: {experiment.note(size)}.")
    if experiment.expect:
        parts.append(f"Expected: {experiment.expect}.")
    if done < planned:
        parts.append(f"{done} of {planned} runs are recorded so far.")
    return [*parts, *_notes(results), *_warnings(results), *_other_data(results)]


def _notes(results: Results) -> Iterator[str]:
    """Yield the notes on the data; a note that not all runs on a data set have names its runs."""
    cells: dict[str, list[tuple[str, str]]] = {}
    for cell, outcomes in results.outcomes.items():
        for note in _over_seeds({note for one in outcomes for note in one.content["notes"]}):
            cells.setdefault(note, []).append(cell)
    for note, concerned in sorted(cells.items()):
        columns = {column for _, column in concerned}
        everybody = sum(column in columns for _, column in results.outcomes)
        runs = "; ".join(results.experiment.run_label(*cell) for cell in concerned)
        yield f"Data: {note}." if len(concerned) == everybody else f"Data: {note}. Said by {runs}."


_NUMBER = re.compile(r"\b\d[\d,]*(?:\.\d+)?\b")


def _over_seeds(notes: Iterable[str]) -> Iterator[str]:
    """Merge notes that differ in their numbers alone into one, with the least and the largest of each number."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for note in sorted(notes):
        alike.setdefault(tuple(_NUMBER.split(note)), []).append(_NUMBER.findall(note))
    for texts, numbers in alike.items():
        spans = (sorted(set(several), key=_value) for several in zip(*numbers, strict=True))
        told = [span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans]
        yield "".join(text + number for text, number in zip(texts, [*told, ""], strict=True))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _warnings(results: Results) -> Iterator[str]:
    """Yield every warning with the runs that gave it."""
    said: dict[str, list[str]] = {}
    for cell, outcomes in results.outcomes.items():
        for warning in sorted({warning for one in outcomes for warning in one.content["warnings"]}):
            count = sum(warning in one.content["warnings"] for one in outcomes)
            seeds = f" ({count} of {len(outcomes)} seeds)" if len(outcomes) > 1 else ""
            said.setdefault(warning, []).append(f"{results.experiment.run_label(*cell)}{seeds}")
    for warning, runs in said.items():
        yield f"Warning: {warning}. Said by {'; '.join(runs)}."


def _other_data(results: Results) -> Iterator[str]:
    """Yield a warning where runs that should have had the same data had not: files were changed in between."""
    keys = ("data", "setting", "clients", "per_silo", "seed", "val_fraction", "test_fraction", "labels")
    for column in results.columns:
        hashes: dict[tuple[Any, ...], set[str]] = {}
        for row in results.rows:
            for outcome in results.seeds(row, column):
                options = outcome.content["resolved"]
                alike = (options.get("method") == "pooled", *(options.get(key) for key in keys))
                hashes.setdefault(alike, set()).add(str(outcome.content.get("data_sha256")))
        if any(len(several) > 1 for several in hashes.values()):
            label = results.experiment.label("columns", column)
            yield (
                f"Warning: the runs on {label} did not all have the same data (data_sha256 in their records): remove "
                "the records of the old data, and run it again."
            )
