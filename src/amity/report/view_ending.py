"""The ending of a run, as a view has it: after the last round every silo has gone on alone, and one may stay alone."""

from __future__ import annotations

from collections.abc import Sequence

from amity.record import Record
from amity.report.contents import EndingView

ALONE = "alone"
"""How the words of a silo begin that delivers the model which it has trained alone."""


def ending_of(record: Record) -> EndingView | None:
    """Return how a run has ended; None where it has no ending, or has not come to it yet."""
    line = record.lines[-1] if record.lines else None
    if line is None or not line.get("ending", False):
        return None
    silos = line.get("holds", {})
    alone = sum(words.startswith(ALONE) for words in silos.values())
    return {"round": line["round"], "silos": silos, "alone": alone, "words": _words(alone, len(silos))}


def delivered_by(silo: str, runs: Sequence[Record]) -> str:
    """Return which model a silo delivers, over the runs of its seeds; empty where none of them has an ending."""
    endings = [ending for run in runs if (ending := ending_of(run))]
    found = [ending["silos"][silo] for ending in endings if silo in ending["silos"]]
    if len(found) < 2:
        return found[0] if found else ""
    alone = sum(words.startswith(ALONE) for words in found)
    return f"alone in {alone} of {len(found)} seeds" if alone else f"together in all {len(found)} seeds"


def _words(alone: int, silos: int) -> str:
    """Return what happened in an ending, in two sentences."""
    first = "After the last round every silo has gone on alone from what was learnt together: that is the ending."
    if not alone:
        return first
    who = f"1 of {silos} silos delivers the model that it has" if alone == 1 else None
    who = who or f"{alone} of {silos} silos deliver the model that they have"
    return f"{first} {who} trained without the others: it was clearly better on held-out examples."
