"""Tables of an experiment, in Markdown for readers and CSV for programs.

layout.py     how tables are written
heading.py    what a reader must know before the numbers
scores.py     table: accuracies, the paper's value beside ours
claims.py     what the paper says of its methods, judged
worth.py      worth: who gains by joining, silo by silo
wilcoxon.py   wilcoxon: p-values between all pairs of rows
cost.py       cost: time, memory and traffic
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amity.experiments.outcome import writing
from amity.experiments.reproduce import Results
from amity.experiments.spec import Output
from amity.experiments.tables.claims import claims
from amity.experiments.tables.cost import cost
from amity.experiments.tables.heading import heading
from amity.experiments.tables.layout import comma_separated, markdown
from amity.experiments.tables.scores import table
from amity.experiments.tables.wilcoxon import wilcoxon
from amity.experiments.tables.worth import worth
from amity.record import replacing

__all__ = ["KINDS", "Made", "claims", "heading", "made", "markdown", "write"]

Made = tuple[list[str], list[dict[str, Any]]]
"""Paragraphs of Markdown, and lines of a CSV file."""

KINDS: dict[str, Callable[[Output, Results], Made]] = {
    "table": table,
    "worth": worth,
    "wilcoxon": wilcoxon,
    "cost": cost,
}


def write(output: Output, results: Results, folder: Path) -> list[Path]:
    """Write one table; gives the files. Nothing is written where nothing is recorded."""
    if not results.outcomes:
        return []
    parts, lines = made(output, results)
    text = "\n\n".join([f"# {results.experiment.title}", *heading(results), *parts]) + "\n"
    files = {folder / f"{output.name}.md": text, folder / f"{output.name}.csv": comma_separated(lines)}
    with writing(folder):
        for path, content in files.items():
            with replacing(path) as temporary:
                temporary.write_text(content, encoding="utf-8")
    return list(files)


def made(output: Output, results: Results) -> Made:
    """A table as paragraphs of Markdown, and as lines of a CSV file."""
    return KINDS[output.kind](output, results)
