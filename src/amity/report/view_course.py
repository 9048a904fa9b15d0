"""How a run went, round by round, as a view has it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from amity.record import Line, Record
from amity.record.summary import values_of
from amity.report.contents import CourseView, Scores

DIGITS = 4
"""Digits after the point that a page can make use of: a score's hundredth and two more."""

REFUSED = "upload refused"
"""How the reason begins where an upload came and was not taken."""


def course_of(record: Record, silos: Sequence[str]) -> CourseView:
    """Return the rounds on record. Scores are in the order of these silos, null for those that the run has not."""
    place = {silo: number for number, silo in enumerate(silos)}
    at = [place[silo] for silo in record.silos]
    lines = record.lines
    return {
        "rounds": [line["round"] for line in lines],
        "mean": [finite(line["mean"]) for line in lines],
        "worst": [finite(line["worst"]) for line in lines],
        "silos": [placed(values_of(line), at, len(silos)) for line in lines],
        "loss": [_mean(line.get("train_loss")) for line in lines],
        "test_loss": [_mean(line.get("loss")) for line in lines],
        "bytes_up": [line["bytes_up"] for line in lines],
        "bytes_down": [line["bytes_down"] for line in lines],
        "seconds": [round(math.fsum(value or 0.0 for value in line["seconds"].values()), 3) for line in lines],
        "collaborators": [finite(line.get("collaborators")) for line in lines],
        "took_part": [_present(line, place) for line in lines],
        "dropped": [_gone(line, refused=False) for line in lines],
        "refused": [_gone(line, refused=True) for line in lines],
    }


def placed(values: Sequence[float | None], at: Sequence[int], silos: int) -> Scores:
    """Return values at the places of their silos; none at all where nothing was measured."""
    if not values:
        return []
    out: Scores = [None] * silos
    for place, value in zip(at, values, strict=True):
        out[place] = finite(value)
    return out


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it: null where it is undefined or not finite."""
    return None if value is None or not math.isfinite(value) else round(value, DIGITS)


def _mean(values: Sequence[float | None] | None) -> float | None:
    known = [value for value in values or () if value is not None and math.isfinite(value)]
    return finite(math.fsum(known) / len(known)) if known else None


def _present(line: Line, place: Mapping[str, int]) -> list[int]:
    return [place[silo] for silo in line.get("took_part", ()) if silo in place]


def _gone(line: Line, *, refused: bool) -> dict[str, str]:
    return {silo: why for silo, why in line.get("dropped", {}).items() if why.startswith(REFUSED) == refused}
