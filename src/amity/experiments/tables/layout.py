"""How tables are written: Markdown whose columns line up, CSV, and numbers as text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from amity.evaluate import Seeds

NONE = "–"


def markdown(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table whose columns line up in plain text too."""
    widths = [max(len(text) for text in column) for column in zip(heads, *body, strict=True)]

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(heads), rule, *(line(texts) for texts in body)])


def comma_separated(lines: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def shown(score: Seeds) -> str:
    return NONE if math.isnan(score.mean) else str(score)


def p_value(value: float) -> str:
    return "<1e-4" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"
