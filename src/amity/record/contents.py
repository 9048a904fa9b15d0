"""The contents of a run's files, as types: what is written, and what whoever reads it may count on.

    facts.json                  FactsFile       the facts and the silos' names
    manifest.json               Manifest        what each silo holds
    rounds.jsonl                Line            one per round, and "check" at its end: see checksums.py
    events.jsonl                EventLine       one per event
    summary.json                Summary         the results
    models/<silo>.json          ModelFacts      what each personal model takes and says
    results.json                Results         the results of several runs, above their directories
    checksums.json              SumsFile        in a run directory, and in each of its checkpoints
    checkpoint/progress.json    CheckpointFile  how far the run had come

A key stands here and nowhere else: shapes.py derives from these types what a file is checked for. `NotRequired`
marks keys that earlier versions did not write; further ones may be added. Undefined numbers are null: JSON has no NaN.
"""

from typing import Any, Literal, NotRequired, TypedDict

from amity.record.privacy_contents import PrivacyFacts, SpentPrivacy
from amity.worth.contents import WorthView

Config = dict[str, Any]
"""The options of a run as `config.toml` has them: their names, types and ranges stand with `amity.config.run.Run`."""

MainScore = Literal["accuracy", "balanced_accuracy", "macro_f1", "auroc", "r2", "rmse", "mae"]
"""The score that rounds and methods are compared by: see `amity.metric`."""

Number = Literal[
    "delivered", "worst", "spread", "last", "bmta", "best_on_test",
    "block_score", "seconds", "bytes_up", "bytes_down", "bytes_eval"
]  # fmt: skip
"""The numbers of a summary that have a mean and a deviation over seeds."""

Scores = list[float | None]
"""A score for each silo, null where it is undefined."""

Metrics = dict[str, float | None]  # means over silos by the name of the metric: see learn/metrics.py


class Subject(TypedDict):
    """The facts that a summary repeats: the method, its data and model, and the version that ran it."""

    method: str
    data: str
    setting: str
    model: str
    clients: int
    seed: int
    engine: str
    version: str


class ColumnFacts(TypedDict):
    """One column of the silos' tables: what it is, what was done with it, and why."""

    column: str
    kind: str
    missing: float | None  # share of the training rows of all silos
    done: str
    why: str
    features: list[str]


class Facts(Subject):
    """The facts of a run, resolved before round 1: they stay as they are."""

    groups: NotRequired[list[int | None] | None]  # of alike silos, where they are known
    notes: NotRequired[list[str]]
    labels: NotRequired[list[str]]
    label: NotRequired[str | None]  # the label's column and the features' names, of tables
    features: NotRequired[list[str] | None]
    schema: NotRequired[dict[str, Any] | None]  # by which tables became features: amity.data.schema.table_schema
    columns: NotRequired[list[ColumnFacts] | None]  # what was done with each of their columns
    score: NotRequired[MainScore]  # runs without it have "accuracy"
    scales: NotRequired[dict[str, list[float | None]] | None]  # silo -> zero and unit of its quantity
    sha256: NotRequired[str | None]  # of the silos' data
    test_sha256: NotRequired[str | None]  # of what silos are tested on
    trainings_ahead: NotRequired[float]  # local trainings before every evaluation, beyond one for each round


class FactsFile(Facts):
    """The facts on disk: with the names of the silos, in their order."""

    silos: list[str]


class Holding(TypedDict):
    """One silo's examples by class, or all of them together where labels are quantities."""

    name: str
    group: int | None
    train: list[int]
    val: list[int] | None
    test: list[int]


class Manifest(TypedDict):
    """The examples of all silos, as `Silos.manifest` counts them."""

    data: NotRequired[str]
    setting: NotRequired[str]
    classes: int  # 0: labels are quantities
    labels: NotRequired[list[str] | None]
    notes: NotRequired[list[str]]
    silos: list[Holding]
    sha256: NotRequired[str]


class Scored(TypedDict):
    """The scores of a round; null throughout in a round without evaluation."""

    mean: float | None
    worst: float | None
    val: NotRequired[float | None]  # the mean score on validation data, where there are some
    metrics: NotRequired[Metrics | None]
    accuracy: NotRequired[Scores | None]  # one of these: the main score of each silo
    balanced_accuracy: NotRequired[Scores | None]
    macro_f1: NotRequired[Scores | None]
    auroc: NotRequired[Scores | None]
    r2: NotRequired[Scores | None]
    rmse: NotRequired[Scores | None]
    mae: NotRequired[Scores | None]
    loss: NotRequired[Scores | None]
    train_loss: NotRequired[Scores | None]
    per_silo: NotRequired[dict[str, Scores] | None]  # metric -> a value for each silo
    withheld: NotRequired[list[bool]]  # of each silo: whether its main score rests on too few examples to be told


class Line(Scored):
    """One round."""

    round: int
    bytes_up: int
    bytes_down: int
    bytes_eval: int
    bytes_spared: NotRequired[int]  # of these two: not sent, since silos had them from the letter before
    seconds: dict[str, float | None]  # phase -> wall time
    executed: NotRequired[str]
    took_part: NotRequired[list[str]]
    dropped: NotRequired[dict[str, str]]  # silo -> why
    epochs: NotRequired[dict[str, int]]  # silo -> local epochs
    collaborators: NotRequired[float | None]  # how many silos one learns from, in the mean
    warnings: list[str]
    holds: NotRequired[dict[str, str]]  # silo -> the model that it chose to hold
    ending: NotRequired[bool]  # whether it is the round after the last, in which every silo goes on alone
    spent: NotRequired[dict[str, SpentPrivacy]]  # silo -> its noisy gradients, under differential privacy
    epsilon: NotRequired[dict[str, float]]  # silo -> what it has spent in all rounds so far


class CloudScores(TypedDict):
    """How good the cloud models are that silos were sent in the delivered round."""

    mean: float | None
    worst: float | None
    per_client: Scores


class SummaryMetrics(TypedDict):
    """The metrics beside the main score, at the rounds that a summary speaks of."""

    delivered: NotRequired[Metrics | None]
    delivered_per_client: NotRequired[dict[str, Scores] | None]
    best_on_test: NotRequired[Metrics | None]
    last: NotRequired[Metrics | None]


class Summary(Subject):
    """The results of a run, or of the rounds so far."""

    rounds: int
    score: NotRequired[MainScore]
    delivered: NotRequired[float | None]  # the mean score of the models that are delivered
    delivered_round: NotRequired[int | None]
    chosen_by: NotRequired[str | None]  # "validation" or "last round"
    worst: float | None
    spread: NotRequired[float | None]
    per_client: Scores
    cloud: NotRequired[CloudScores | None]
    last: float | None  # the mean score of the last round
    bmta: float | None  # the best mean test accuracy over rounds, as papers report it
    best_on_test: NotRequired[float | None]  # the same of any main score
    best_on_test_round: NotRequired[int | None]
    best_on_test_per_client: NotRequired[Scores]
    metrics: NotRequired[SummaryMetrics | None]
    seconds: float
    bytes_up: int
    bytes_down: int
    bytes_eval: int
    bytes_spared: NotRequired[int]
    block_score: float | None
    privacy: NotRequired[PrivacyFacts]  # in runs with differential privacy


class ModelFacts(TypedDict):
    """What is needed to use a personal model later; it lies beside the weights, in a run and at a silo of its own."""

    run: NotRequired[str]  # between organisations: the run's name
    contract: NotRequired[str]  # and the hash of its contract
    silo: str
    method: str
    model: str  # a name that Amity knows, or what the user's own is called
    own: NotRequired[bool]  # whether code of the user's own builds the model
    round: int  # after which it is the personal model
    shape: list[int]  # of one example, as the model takes it
    labels: list[str] | None  # the classes in the order of the outputs; None: quantities
    label: NotRequired[str | None]  # the column of the labels, of tables
    features: list[str] | None  # the columns in the order in which the model takes them, of tables
    pixels: bool  # whether whole numbers 0 to 255 are pixels, which a model takes scaled to -1 to 1
    scale: list[float]  # zero and unit of quantities: what the model gives, times unit, plus zero
    schema: NotRequired[dict[str, Any] | None]  # how a table's cells become features; None: they are the numbers
    seen: NotRequired[list[float]]  # the smallest and the largest number that the model was trained on


class OverSeeds(TypedDict):
    """A number of a summary over runs that differ in their seed alone."""

    mean: float | None
    deviation: float | None  # null with one seed
    values: Scores  # by seed


class MethodResults(TypedDict):
    """One method's summaries together."""

    method: str
    data: str
    setting: str
    model: str
    score: MainScore
    seeds: list[int]
    delivered: OverSeeds | None  # null where no run has the number; one key for each `Number`
    worst: OverSeeds | None
    spread: OverSeeds | None
    last: OverSeeds | None
    bmta: OverSeeds | None
    best_on_test: OverSeeds | None
    block_score: OverSeeds | None
    seconds: OverSeeds | None
    bytes_up: OverSeeds | None
    bytes_down: OverSeeds | None
    bytes_eval: OverSeeds | None


class Comparison(TypedDict):
    """How surely a method differs from the best one: see `amity.statistics.RankTest`."""

    p: float | None
    least: float | None
    zeros: int


class Results(TypedDict):
    """The results of several runs together."""

    methods: dict[str, MethodResults]
    tests: dict[str, Comparison | None] | None
    worth: NotRequired[list[WorthView]]  # was joining worth it, by method; where every silo trained alone as well


class EventLine(TypedDict):
    """One event: the fields of `amity.federation.events.Event`; None and empty texts are left out."""

    what: str
    round: int
    silo: NotRequired[str]
    bytes: NotRequired[int]
    seconds: NotRequired[float]
    words: NotRequired[str]
    done: NotRequired[int]
    total: NotRequired[int]
    time: float


class EventsPrefix(TypedDict):
    """The beginning of `events.jsonl` that belongs to a checkpoint."""

    bytes: int
    sha256: str


class CheckpointFile(TypedDict):
    """How far a run had come when its checkpoint was saved."""

    round: int
    seconds: float
    chosen: int | None  # the round that validation data have chosen so far
    events: NotRequired[EventsPrefix]
    settled: NotRequired[dict[str, list[Any]]]  # by silo: what became of its last upload


class SumsFile(TypedDict):
    """Checksums of the files in a folder; a last key, "check", is the checksum of all before it."""

    format: int
    config: list[str]  # of the configuration's values: now, and before the last resume
    rounds: int | None  # that the results, or the checkpoint, are of
    lines: str | None  # the check of the last of these rounds' lines
    files: dict[str, str]  # by their path from the folder
