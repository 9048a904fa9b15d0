"""The contents of a report as types: one JSON view of a run or of several, which every page is drawn from.

    view.py      makes a View from records, once
    page/        draws it: report.html has it inside, the live page (`amity watch`) is sent a new one as rounds pass
    figures/     draws the same numbers as PNG, PDF and CSV

The view holds numbers and short texts, no markup: pages escape every text. JSON has no NaN, so a number that may be
undefined is null. `VERSION` grows when a key changes its meaning; keys may be added without that.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from amity.worth.contents import Judgement, SiloVerdict, WorthView

__all__ = [
    "VERSION",
    "Alarm",
    "CourseView",
    "EndingView",
    "EventView",
    "Judgement",
    "Level",
    "LiveRun",
    "LiveSilo",
    "LiveView",
    "MethodView",
    "OverSeeds",
    "PrivacyView",
    "RunView",
    "ScoreView",
    "Scores",
    "SiloVerdict",
    "SiloView",
    "View",
    "WeightsView",
    "WorthView",
]

VERSION = 1

Scores = list[float | None]
"""A number for each silo, in the order of `View.silos`."""

Level = Literal["good", "remark", "warning"]


class ScoreView(TypedDict):
    """The score that everything is compared by."""

    key: str  # accuracy, balanced_accuracy, auroc, macro_f1, r2, rmse
    title: str  # as in a sentence: "accuracy"
    unit: str  # "%", or "" where it is in the labels' own unit
    better: Literal["higher", "lower"]


class SiloView(TypedDict):
    """One silo: what it holds."""

    name: str
    group: int | None  # of alike silos, where these are known
    train: int | None  # examples; null where no manifest says it
    val: int | None
    test: int | None
    held: list[int] | None  # training examples by class


class OverSeeds(TypedDict):
    """A number over the seeds of a method."""

    mean: float | None
    deviation: float | None  # null with one seed


class MethodView(TypedDict):
    """One method: a row of the table, a curve."""

    name: str  # told apart from all others
    method: str
    seeds: list[int]
    numbers: dict[str, OverSeeds | None]  # every `Number` of a summary (bytes, not MB), and both shares
    chosen_by: str | None  # how the delivered round was chosen: "validation" or "last round"
    metrics: dict[str, OverSeeds | None]  # beside the main score, of the delivered models
    cloud: OverSeeds | None  # mean score of what the server mixed for each silo
    best: bool
    level: bool | None  # whether the test cannot tell it from the best one; null where nothing was tested
    p: str  # the paired test against the best, as text
    reference: bool  # `separate`, `pooled`: shown to compare with
    runs: list[int]  # places in `View.runs`, one per seed


class CourseView(TypedDict):
    """How a run went, round by round; every list has an entry for each round on record."""

    rounds: list[int]
    mean: Scores
    worst: Scores
    silos: list[Scores]  # [round][silo], empty lists for rounds without evaluation
    loss: Scores  # mean training loss, where it was measured (--train-loss)
    test_loss: Scores  # mean loss on test data
    bytes_up: list[int]
    bytes_down: list[int]
    seconds: list[float]
    collaborators: Scores
    took_part: list[list[int]]  # places of silos
    dropped: list[dict[str, str]]  # silo -> why
    refused: list[dict[str, str]]


class WeightsView(TypedDict):
    """Who learns from whom: a matrix [receiver, giver] by round, each number a byte or two.

    A weight is `low + code * (high - low) / 65534`; the code 65535 is undefined: that silo was not asked.
    """

    rounds: list[int]
    low: float
    high: float
    codes: str  # base64 of little-endian uint16  # [rounds, m, m]
    given: list[int]  # silos in the order of groups
    clustered: list[int]  # silos with those that listen to each other side by side


class Alarm(TypedDict):
    """One thing that a reader should know before trusting a run."""

    level: Level
    title: str  # "uniform attention"
    words: str
    silos: list[str]
    rounds: list[int]


class EndingView(TypedDict):
    """The ending of a run: a last line on record, in which every silo has gone on alone."""

    round: int  # its number: the one after the last round
    silos: dict[str, str]  # silo -> the model that it delivers: "together, 31 epochs", "alone, 40 epochs"
    alone: int  # how many deliver the model that they have trained without the others
    words: str


class PrivacyView(TypedDict):
    """What a run with differential privacy has spent."""

    silos: dict[str, float]  # silo -> its epsilon, in all rounds so far
    words: str


class RunView(TypedDict):
    """One run: a method with one seed."""

    name: str
    seed: int
    folder: str  # the directory's name
    finished: bool
    asked: int  # rounds that the run was to have
    delivered_round: int | None
    delivered: Scores
    course: CourseView
    weights: WeightsView | None
    alarms: list[Alarm]
    config: str  # as TOML
    facts: dict[str, str]  # versions, engine, model, hashes: name -> value, as text
    command: str  # that repeats it
    events: list[EventView]  # the last ones, in plain words
    ending: NotRequired[EndingView | None]  # null without one
    privacy: NotRequired[PrivacyView | None]  # null without differential privacy


class EventView(TypedDict):
    """One event in plain words."""

    time: float  # seconds since 1970
    round: int
    silo: str | None
    level: Level
    words: str  # "north: round 7 uploaded, 2.3 MB"


class LiveSilo(TypedDict):
    """How one silo stands right now."""

    name: str
    state: str  # invited, connected, training, uploaded, evaluated, absent, refused, left, ...
    words: str  # why, where it is absent or refused
    since: float | None
    seen: float | None  # its last sign of life; null where silos live in the run's own process
    health: Literal["green", "orange", "red", "none"]
    round: int
    recent: Scores  # its scores in the last rounds, for a sparkline


class LiveRun(TypedDict):
    """How one run stands right now."""

    run: int  # place in `View.runs`; -1 before anything is on record
    name: str
    phase: str  # waiting, running, ended, stopped, failed, dead: its process is gone
    words: str
    round: int
    rounds: int
    begun: float | None
    left: float | None  # seconds that it will still take, by the last rounds' pace
    written: float  # when its files last changed
    silos: list[LiveSilo]
    log: list[str]  # last lines


class LiveView(TypedDict):
    """All runs that are watched, right now."""

    now: float
    runs: list[LiveRun]
    feed: list[EventView]  # newest first


class View(TypedDict):
    """All that a page shows."""

    version: int
    amity: str  # the version that made it
    made: float  # seconds since 1970
    title: str
    score: ScoreView
    data: str
    setting: str
    model: str
    classes: list[str] | None  # null where labels are quantities
    label: str | None
    features: list[str] | None
    silos: list[SiloView]
    notes: list[str]  # what to know about the data
    methods: list[MethodView]
    table: dict[str, str]  # heading of each number of `MethodView.numbers` that the table shows, in order; bytes as MB
    why_no_best: str  # why no method is called the best, where scores cannot be compared
    remarks: list[str]  # how to read the table
    worth: list[WorthView]  # by method, the one that the page leads with first; empty without `separate`
    why_no_worth: str  # what to do to get verdicts, where there are none
    runs: list[RunView]
    live: LiveView | None
