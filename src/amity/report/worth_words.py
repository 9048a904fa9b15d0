"""The rule behind verdicts, in words for the page."""

from __future__ import annotations

from amity.metric import METRICS
from amity.record import Record
from amity.worth import judgement
from amity.worth.contents import Score


def rule(score: Score, seeds: int, unequal: str, *, dealt_anew: bool) -> str:
    """Return how a verdict is made, and how often it is wrong."""
    how: dict[Score, str] = {
        "accuracy": "Tango's score interval for the difference of two models on the same test examples",
        "r2": "a bootstrap over the silo's test examples of the difference in R²",
    }
    title, unit, width = METRICS[score].title, judgement.unit_of(score), judgement.TRAINING[score]
    noise = f"{width:g} {'point' if width == 1 else unit} (standard deviation)"
    rest = f"the difference in {title}, with the share that each of the silo's test examples has in it"
    if unit == "%":
        rest = f"by how many percent {title} is smaller, with the share that each of the silo's test examples has in it"
    words = (
        "A silo gains, or is better alone, if the 95 % interval of the difference leaves out zero: "
        f"{how.get(score, rest)}, widened by {noise} for what two "
        "trainings differ by anyway. Measured where joining does nothing, at most 5 % of silos get a false verdict: "
        "docs/verdicts.md."
    )
    if dealt_anew:
        words += f" Silos are dealt anew with each of {seeds} seeds: rows are of the first, counts are of all."
    elif seeds > 1:
        words += f" Over {seeds} seeds: the mean difference, with the mean of the seeds' intervals over examples."
    return words + unequal


def unequal(run: Record, against: Record) -> str:
    """Return a sentence where the model alone was trained for another number of rounds or epochs."""
    told = []
    for key in ("rounds", "epochs"):
        ours, theirs = run.config.get(key), against.config.get(key)
        if ours != theirs:
            told.append(f"{theirs} {key} alone, {ours} together")
    return f" Unequal work: {', '.join(told)}." if told else ""
