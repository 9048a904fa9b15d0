"""Tables of an experiment, in Markdown for readers and CSV for programs.

layout.py     tables as Markdown and CSV, and numbers as text
heading.py    the paragraphs about the numbers
scores.py     table: accuracies, the paper's value beside ours
claims.py     the paper's claims, judged
work.py       the local work behind the numbers
worth.py      worth: who gains by joining, silo by silo
wilcoxon.py   wilcoxon: p-values between all pairs of rows
cost.py       cost: time, memory and traffic
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amity.papers.outcome import writable_folder
from amity.papers.results import Results
from amity.papers.spec import Output
from amity.papers.tables.claims import claims
from amity.papers.tables.cost import cost
from amity.papers.tables.heading import heading
from amity.papers.tables.layout import TableParts, comma_separated, markdown
from amity.papers.tables.scores import table
from amity.papers.tables.wilcoxon import wilcoxon
from amity.papers.tables.worth import worth
from amity.record import replacing

__all__ = ["KINDS", "TableParts", "claims", "heading", "make", "markdown", "write"]

KINDS: dict[str, Callable[[Output, Results], TableParts]] = {
    "table": table,
    "worth": worth,
    "wilcoxon": wilcoxon,
    "cost": cost,
}
"""Kinds of output that are tables, and what makes each of them."""


def write(output: Output, results: Results, folder: Path) -> list[Path]:
    """Write one table and return its files: none where nothing is recorded.

    First comes the answer, what became of the paper's claims, then the numbers, then what a reader has to know of them.
    """
    if not results.outcomes:
        return []
    paragraphs, lines = make(output, results)
    source, *notes = heading(results)
    answer = claims(results, results.axes(output)[1], briefly=True) if output.kind == "table" else ()
    text = "\n\n".join([f"# {results.experiment.title}", source, *answer, *paragraphs, *notes]) + "\n"
    files = {folder / f"{output.name}.md": text, folder / f"{output.name}.csv": comma_separated(lines)}
    with writable_folder(folder):
        for path, content in files.items():
            with replacing(path) as temporary:
                temporary.write_text(content, encoding="utf-8")
    return list(files)


def make(output: Output, results: Results) -> TableParts:
    """Return a table as paragraphs of Markdown, and as lines of a CSV file."""
    return KINDS[output.kind](output, results)
