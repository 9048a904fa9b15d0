"""The advice: whether to join, with what, what to expect, and the command to run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from amity.advising.looking import Looked, words_of
from amity.config.references import ALONE
from amity.config.run import Run
from amity.worth.consortium import CLEAR, Counts, chance_of, counted
from amity.worth.contents import Judgement, Score
from amity.worth.judgement import judged
from amity.worth.paired import Difference

Join = Literal["yes", "some", "level", "no"]
"""Whether to join: all; those whom it helps; it makes no clear difference; nobody."""

PROPOSES_ENDING = "accord"
"""The method that has an ending without being told."""

MERIT = "with it every silo takes the better of a common and a personal model, and none can pull the others far"
"""What the method that is tried first has over the other, where both are level."""

TITLES: dict[Score, str] = {"accuracy": "accuracy", "r2": "R²"}


class Expected(NamedTuple):
    """What one silo may expect."""

    silo: str
    examples: int  # training examples that were left out and judged by
    alone: float  # its score on these
    together: float
    difference: Difference

    @property
    def judgement(self) -> Judgement:
        """Whether it gains, is better alone, or shows no clear difference."""
        return judged(self.difference)[0]


@dataclass(frozen=True)
class Advice:
    """What is advised, and what it rests on."""

    join: Join
    tried: str  # the method that training alone is compared with
    reason: str  # why this one
    gain: Difference  # over training alone, in the mean over silos, in points
    silos: Sequence[Expected]
    run: Run  # that is proposed: of the method, or of training alone
    command: str
    score: Score  # what points are of
    seen: Looked
    data: str
    rounds: int  # of the probe
    folds: int  # parts of the training data that were left out, one after the other

    @property
    def method(self) -> str:
        """The method to run; `separate` where silos had better train alone."""
        return self.run.method

    @property
    def counts(self) -> Counts:
        """How many silos gain, are better alone, or show no clear difference."""
        return counted([one.judgement for one in self.silos])

    @property
    def answer(self) -> str:
        """The advice in a sentence."""
        return _ANSWERS[self.join](self)

    def json(self) -> dict[str, Any]:
        """Return all of it for programs."""
        counts = self.counts
        return {
            "join": self.join,
            "method": self.method,
            "answer": self.answer,
            "reason": self.reason,
            "command": self.command,
            "tried": self.tried,
            "score": self.score,
            "gain": _difference(self.gain),
            "gain_clearly": counts.gain,
            "better_alone": counts.lose,
            "federation": dict(self.seen),
            "probe": {"rounds": self.rounds, "parts": self.folds},
            "silos": [
                {
                    "silo": one.silo,
                    "examples": one.examples,
                    "alone": _finite(one.alone),
                    "together": _finite(one.together),
                    **_difference(one.difference),
                    "judgement": one.judgement,
                }
                for one in self.silos
            ],
        }

    def __str__(self) -> str:
        lines = [*words_of(self.seen, self.data), "", self.answer, self.reason, _probe(self)]
        return "\n".join([*lines, "", "run it:", "", f"    {self.command}"])

    __repr__ = __str__


def join_of(gain: Difference, counts: Counts) -> Join:
    """Return whether to join, from the gain over all silos and from how many gain clearly."""
    if gain.low > 0:
        return "yes"
    if counts.gain and chance_of(counts.gain, counts.compared) < CLEAR:
        return "some"
    return "no" if gain.high < 0 else "level"


def reason_of(tried: str, other: str, difference: Difference) -> str:
    """Return why one method stands for joining and not the other, from the difference of the two."""
    points = f"{difference.points:+.1f} points, {_span(difference)}"
    if difference.low > 0:
        return f"{tried} stands for joining: it does better than {other} here ({points})."
    return f"{tried} stands for joining: it is level with {other} here ({points}), and {MERIT}."


def _yes(advice: Advice) -> str:
    counts = advice.counts
    words = f"join: {advice.tried} is expected to gain {_gain(advice)} over training alone"
    if counts.lose:
        keep = "lets that one keep its own model" if counts.lose == 1 else "lets those keep their own model"
        return f"{words}; {_better_alone(counts)}: --safe {keep}."
    return f"{words}; no silo is clearly better alone, and --safe keeps it so."


def _some(advice: Advice) -> str:
    counts = advice.counts
    words = (
        f"join where it helps: {counts.gain} of {counts.compared} silos are expected to gain, more than chance gives"
    )
    rest = f", though over all silos {advice.tried} is at {_gain(advice)} against training alone"
    return f"{words}{rest}; --safe lets the others keep their own model."


def _level(advice: Advice) -> str:
    words = f"level: {advice.tried} is at {_gain(advice)} against training alone, which may be nothing"
    alone = f"; {_better_alone(advice.counts)}" if advice.counts.lose else ""
    return f"{words}{alone}. Training alone is the simpler choice; more examples may tell more."


def _no(advice: Advice) -> str:
    alone = f"; {_better_alone(advice.counts)}" if advice.counts.lose else ""
    return f"do not join: {advice.tried} is expected to be at {_gain(advice)} against training alone{alone}."


_ANSWERS = {"yes": _yes, "some": _some, "level": _level, "no": _no}


def _better_alone(counts: Counts) -> str:
    is_are = "is" if counts.lose == 1 else "are"
    return f"{counts.lose} of {counts.compared} silos {is_are} expected to do better alone"


def _gain(advice: Advice) -> str:
    sign = "" if advice.join == "yes" else "+"
    return f"{advice.gain.points:{sign}.1f} points of {TITLES[advice.score]} ({_span(advice.gain)})"


def _span(difference: Difference) -> str:
    return f"{difference.low:.1f} to {difference.high:.1f}"


def _probe(advice: Advice) -> str:
    """Return what it rests on."""
    judged_by = sum(one.examples for one in advice.silos)
    parts = "one quarter" if advice.folds == 1 else f"{advice.folds} quarters, one after the other,"
    return (
        f"This rests on a probe of {advice.rounds} rounds with an ending: {parts} of each silo's training data "
        f"left out and judged by, {judged_by} examples in all. Test data were not looked at."
    )


def proposed(run: Run, join: Join, tried: str) -> Run:
    """Return the run that is proposed."""
    joins = join in ("yes", "some")
    ending = "auto" if run.ending == "default" and not (joins and tried == PROPOSES_ENDING) else run.ending
    return replace(run, method=tried if joins else ALONE, settings={}, ending=ending, safe=joins)


def _difference(one: Difference) -> dict[str, float | None]:
    return {"points": _finite(one.points), "low": _finite(one.low), "high": _finite(one.high)}


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
