"""Classes or quantities: the guess for the labels of a folder of silos, and the note where it is in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from amity.data.schema.labels import Kind, Numbered, Written, is_number, number

FEW, MANY = 10, 20  # different whole numbers: fewer are classes without a doubt, more deserve a note


def number_by_kind(
    silos: Mapping[str, Sequence[Written]], kind: Kind, *, by_name: bool
) -> tuple[Numbered, tuple[str, ...]]:
    """Number the labels of all silos, and return them with notes on what was guessed.

    `silos` maps each silo to the labels of its parts; `by_name`: labels are names of folders, and therefore classes.

    Whole numbers are classes, but prices and blood counts are whole numbers too. Those that hardly repeat, by
    scikit-learn's rule of more than half, are taken for quantities, unless they are codes that count from 0 or 1 on.
    Where many other numbers are taken for classes, a note says so.
    """
    numbered = number(silos, kind, by_name=by_name)
    if kind != "auto" or not all(map(is_number, numbered.names)):
        return numbered, ()
    count, different = sum(map(len, numbered.parts)), sum(len(part.unique()) for part in numbered.parts)
    low, high = (Decimal(numbered.names[end]) for end in (0, -1)) if numbered.classes else (0, 0)
    codes = low in (0, 1) and high < 2 * numbered.classes  # small silos do not have all of many classes
    found = f"{count} examples have {numbered.classes} different whole numbers for labels"
    if numbered.classes >= FEW and 2 * different > count and not codes:
        note = f"{found}, which hardly repeat, taken for quantities: if they are classes, set --labels classes"
        return number(silos, "quantities"), (note,)
    if numbered.classes > MANY:
        return numbered, (f"{found}, taken for classes: if they are quantities, set --labels quantities",)
    return numbered, ()
