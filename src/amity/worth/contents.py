"""The answer to "was joining worth it?" as types: a part of a report's view, and of `results.json`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from amity.metric import MetricKey

Judgement = Literal["gains", "better alone", "no clear difference", "cannot be compared"]


Score = MetricKey
"""What two models are compared by: the main score of their run."""


class SiloVerdict(TypedDict):
    """Whether joining was worth it for one silo: its personal model against its own model, trained alone."""

    silo: str
    examples: int | None  # to test on
    alone: float | None
    shared: float | None  # the global model's score, where there is one
    personal: float | None
    difference: float | None  # how much better personal is than alone: in points, or % of the error alone (RMSE, MAE)
    low: float | None  # the interval of the difference, over the silo's own test examples
    high: float | None
    judgement: Judgement
    words: str  # "gains 4.2 points"
    over_seeds: NotRequired[list[Judgement]]  # by seed, where there are several
    delivers: NotRequired[str]  # which model it delivers after an ending: "together, 31 epochs"; empty without one


class RecoveredShare(TypedDict):
    """How much of what all data in one place would bring a method brings."""

    share: float | None  # in percent; null where it is undefined
    ceiling: float | None  # the whole gain, in units of the score
    words: str  # with the reason, where it is undefined


class HarmedShare(TypedDict):
    """How many silos would have been better off alone."""

    share: float | None  # in percent of the silos that can be compared
    beyond: float | None  # the same, less what chance would give
    p: float | None  # how often chance alone would give as many
    words: str


class WorthView(TypedDict):
    """Whether joining was worth it with one method."""

    method: str  # a name of `View.methods`
    alone: str  # the run that it is compared with, a name of `View.methods`
    shared: str | None  # the method whose global model is shown
    silos: list[SiloVerdict]
    gain: int  # how many silos have each judgement
    lose: int
    level: int
    unknown: int
    mean: float | None  # mean difference over silos
    words: str  # the answer in one sentence, for the top of the page
    chance: str  # how many such verdicts chance alone would give, and whether there are more
    rule: str  # how a verdict is reached, and how often it is wrong
    score: NotRequired[Score]  # what verdicts are about: the main score of the runs
    recovered: NotRequired[RecoveredShare]  # where there is a run with all data in one place
    harmed: NotRequired[HarmedShare]
    choice: NotRequired[str]  # why the page leads with this method; empty for all others
