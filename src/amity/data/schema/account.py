"""A readable account of a schema: for each column what it is, what was done with it, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from amity.data.schema.column_schema import OTHER, USED, ColumnSchema
from amity.data.schema.columns import SHOWN, leave_out, listed
from amity.data.schema.table_schema import TableSchema

_REMEDIES = {
    "text": "shorten it to a few words, or list categories in a schema file",
    "unclear": "decide what it is",
}


class ColumnAccount(TypedDict):
    """One column, in words."""

    column: str
    kind: str
    missing: float | None  # share of the training rows of all silos; null where a schema was given
    done: str
    why: str
    features: list[str]


def account_of(schema: TableSchema, missing: Mapping[str, float] | None = None) -> list[ColumnAccount]:
    """Return the account of a schema; `missing` has the share of missing values by column, where it is known."""
    return [
        {
            "column": column.name,
            "kind": column.kind,
            "missing": None if missing is None else missing.get(column.name, 0.0),
            "done": _done(column),
            "why": column.why if column.kind not in USED else _why(column),
            "features": list(column.features),
        }
        for column in schema.columns
    ]


def _done(column: ColumnSchema) -> str:
    if column.kind not in USED:
        return "left out"
    gap = ""
    if column.missing:
        gap = "; missing: flagged" if column.kind == "category" else f"; missing: {column.fill:.4g}, flagged"
    plain = (column.centre, column.scale) == (0, 1)
    scaled = "as it is" if plain else f"(x - {column.centre:.5g}) / {column.scale:.4g}"
    if column.kind == "number":
        return scaled + gap
    if column.kind == "yes/no":
        return "1 or 0" + gap
    if column.kind == "date":
        parts = [f"days since 2000, {scaled}" if part == "days" else part for part in column.parts]
        return ", ".join(parts) + gap
    each = listed([*column.categories, *([OTHER] if column.other else [])], 6)
    return f"a feature each: {each}{gap}"


def _why(column: ColumnSchema) -> str:
    if column.kind == "number":
        return "numbers"
    if column.kind == "yes/no":
        return "no value but yes and no, or 1 and 0"
    return "dates" if column.kind == "date" else "words that repeat"


def left_out(schema: TableSchema) -> tuple[str, ...]:
    """Return a note for each reason why columns are left out."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for column in schema.columns:
        if column.kind not in USED:
            reasons.setdefault((column.kind, column.why), []).append(column.name)
    notes = []
    for (kind, why), names in reasons.items():
        remedy = f": {_REMEDIES[kind]}" if kind in _REMEDIES else ""
        shown = listed([repr(name) for name in names])
        notes.append(f"left out: {shown}, {why or kind}{remedy}")
    return tuple(notes)


def doubtful(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on columns of whole numbers that all differ: they may be ids."""
    if not names:
        return ()
    which = f"the column {names[0]!r} is" if len(names) == 1 else f"the columns {listed(map(repr, names))} are"
    remedy = leave_out(*names[:SHOWN])
    return (f"{which} a different whole number in each row: if that is an id, it is no feature, {remedy}",)
