"""Tables as text: Markdown whose columns line up, CSV, and numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from amity.statistics import RankTest, Seeds

NO_VALUE = "–"

CsvLine = dict[str, Any]
"""One line of a CSV file: the names of its columns, and their values."""


class TableParts(NamedTuple):
    """A table for readers and for programs."""

    paragraphs: list[str]  # of Markdown
    lines: list[CsvLine]


def markdown(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns line up in plain text too."""
    widths = [max(len(text) for text in column) for column in zip(heads, *body, strict=True)]

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(heads), rule, *(line(texts) for texts in body)])


def comma_separated(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a CSV file; the first line names the columns."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def csv_value(value: Any) -> Any:
    """Return a value as CSV files have it: six digits of a number, nothing for what was not measured."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def score_text(score: Seeds) -> str:
    """Return a mean and its deviation as text, or a dash where nothing was measured."""
    return NO_VALUE if math.isnan(score.mean) else str(score)


def joined_names(names: Iterable[str]) -> str:
    """Return names as a sentence lists them: one, another and a third."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def p_value_text(test: RankTest) -> str:
    """Return a p-value as a sentence has it, or that there was no test, or that silos were too few for one."""
    if math.isnan(test.p):
        return "not tested"
    return f"p {test}" if test.enough else str(test)
