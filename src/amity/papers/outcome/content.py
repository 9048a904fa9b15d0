"""The JSON file of a finished run: its keys, and their types.

Accuracies (of quantities: R2) are in percent, and None where there was nothing to measure, as JSON has no NaN. Keys
that are not required came later: files of earlier versions do without them.
"""

# No `from __future__ import annotations`: with it Python would take optional keys for required ones.

from collections.abc import Mapping
from typing import Any, NotRequired, Required, TypedDict

from amity.papers.outcome.tested import SHAPE as TESTED
from amity.papers.outcome.tested import SiloTested
from amity.record.shapes import MAYBE, NUMBER, Each

SCORE_DIGITS = 4
"""Digits that are kept of a score."""
DIFFERENCE_DIGITS = SCORE_DIGITS - 1
"""Digits of a difference of two scores, so that what rounding leaves of equal fractions is no difference."""
FEW_SILOS = 20
"""Silos of which every round is kept; of more silos the best and the last round are."""

Score = float | None
Metrics = Mapping[str, Mapping[str, Score | list[Score]] | None]


class RequestedOptions(TypedDict, total=False):
    """The options in which a run differs from a run without any: these, and any other option of a run."""

    method: Required[str]
    set: dict[str, Any]


class ResolvedOptions(TypedDict, total=False):
    """The options of a run as it was resolved, `auto` left only where it changes no result: see `amity.config.run`."""

    method: str
    data: str
    setting: str
    clients: int
    per_silo: int
    test_fraction: float
    labels: str
    label: str
    drop_column: str
    schema: str
    scale: str
    model: str
    rounds: Required[int]
    epochs: Required[int]
    batch: int
    lr: float
    lr_decay: float
    optimizer: str
    momentum: float
    val_fraction: float
    ending: int | str
    safe: bool
    robust: str
    min_mix: int
    min_count: int
    encrypted: bool
    dp_noise: float | str
    dp_epsilon: float | str
    dp_clip: float | str
    dp_delta: float | str
    metric: str
    class_weights: str
    evaluate_every: int
    train_loss: bool
    init_from: str
    seed: Required[int]
    workers: int | str
    engine: str
    ray_address: str
    matrix_dir: str
    device: str
    participation: float
    drop: float
    drop_phase: str
    local_epochs_range: str
    checkpoint_every: int | str
    set: dict[str, Any]  # of the method


class RecordedRound(TypedDict):
    """One round that was evaluated."""

    round: int
    mean: Score
    worst: Score
    spread: Score
    accuracy: list[Score]  # a number per silo


class RoundValues(TypedDict):
    """Numbers of all rounds, one per round; None in rounds that were not evaluated."""

    round: list[int]
    mean: list[Score]
    worst: list[Score]
    pooled: list[Score]
    loss: list[Score]
    train_loss: list[Score]
    took_part: NotRequired[list[int]]


class OutcomeContent(TypedDict):
    """All that is kept of a finished run, besides its collaboration weights."""

    asked: RequestedOptions
    resolved: ResolvedOptions
    machine: NotRequired[str]
    version: NotRequired[str]
    notes: list[str]
    data_sha256: NotRequired[str | None]
    silos: list[str]
    groups: list[int | None] | None
    score: NotRequired[str]  # the main score: "accuracy", or "r2" where labels are quantities, unless another was asked
    seconds: float
    peak_gib: float | None
    bytes_up: int
    bytes_down: int
    block_score: float | None
    best: RecordedRound  # with the best mean on test data
    earlier: NotRequired[RecordedRound | None]  # the best one before the last evaluation
    last: RecordedRound
    validated: RecordedRound | None  # the round that validation data chose
    validation: Score  # on validation data, in that round
    metrics: Metrics | None
    ending: NotRequired[bool]  # whether every silo went on alone after the last round
    tested: NotRequired[list[SiloTested | None]]  # each test example with the delivered models, a silo each
    warnings: list[str]
    warned: NotRequired[dict[str, int]]  # the round in which each warning came first
    rounds: RoundValues
    clients: list[list[Score]] | None  # accuracies [round][silo], where there are few silos


_ROUND_SHAPE = {"round": int, "mean": MAYBE, "worst": MAYBE, "spread": MAYBE, "accuracy": [MAYBE]}
SHAPES = {
    "resolved": {"seed": int, "rounds": int},
    "notes": [str],
    "silos": [str],
    "groups": ([(int, None)], None),
    "?score": str,
    "seconds": NUMBER,
    "peak_gib": MAYBE,
    "bytes_up": int,
    "bytes_down": int,
    "block_score": MAYBE,
    "best": _ROUND_SHAPE,
    "last": _ROUND_SHAPE,
    "validated": (_ROUND_SHAPE, None),
    "validation": MAYBE,
    "metrics": (Each((Each((MAYBE, [MAYBE])), None)), None),
    "warnings": [str],
    "rounds": Each([MAYBE]),
    "?ending": bool,
    "?tested": TESTED,
    "clients": ([[MAYBE]], None),
}
"""Shapes that a file is checked for when it is read: see record/shapes.py."""

REQUIRED_KEYS = [name for name in SHAPES if not name.startswith("?")]
