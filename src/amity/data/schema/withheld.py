"""What a silo withholds from a summary before it leaves for another organisation: whatever rests on too few rows.

A word that two patients share, or the mean of a column that only one of them has a number in, tells about these people.
So with a least count of k, of each column:

    words that fewer than k rows share are not named, nor are those that no contract could hold
    numbers that fewer than k rows have count as missing, and so do words that fewer than k rows have in all
    a count of yes, or of no, below k counts as none

A column with k rows or more of everything is told exactly, so that a schema is the same as in a simulation.
"""

from __future__ import annotations

from amity.data.schema.summary import ColumnSummary, Summary
from amity.data.schema.summary_json import is_plain


def withheld(summary: Summary, least: int) -> Summary:
    """Return a summary without what fewer than `least` rows have in common."""
    columns = {name: _column(column, least) for name, column in summary["columns"].items()}
    return {**summary, "columns": columns}


def _column(column: ColumnSummary, least: int) -> ColumnSummary:
    named = {word: count for word, count in column["named"].items() if count >= least and is_plain(word)}
    found: ColumnSummary = {**column, "named": named}
    if 0 < column["numbers"] < least:
        found |= {"missing": found["missing"] + column["numbers"], "numbers": 0, "mean": 0.0, "squares": 0.0}
        found |= {"binary": True, "whole": True, "codes": True, "rising": False}
    if 0 < column["words"] < least:
        found |= {"missing": found["missing"] + column["words"], "words": 0, "answers": True, "days": {}}
        found |= {"slips": False}
    told = found["numbers"] + found["words"]
    if not told:
        found |= {"named": {}, "yes": 0, "constant": True, "unique": True}
    elif told != column["numbers"] + column["words"]:  # what is said of numbers and words together holds no more
        found |= {"yes": 0, "constant": False, "unique": False}
    elif column["answers"] and column["binary"]:
        found["yes"] = 0 if column["yes"] < least else told if told - column["yes"] < least else column["yes"]
    return found
