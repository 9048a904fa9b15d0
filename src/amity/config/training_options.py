"""Options of a run: what is trained, for how long and how, and by which score models are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from amity.config.ending import Ending
from amity.config.options import option
from amity.config.participation import MANY, borrowed
from amity.metric import MetricWord


@dataclass(frozen=True)
class TrainingOptions:
    """The part of a `Run` that says how silos train, up to their ending."""

    model: str = option("auto", "model: mlr, mlp, cnn, cnn-apple, resnet18, cnn1d; auto picks by the data")
    rounds: int = option(20, "rounds of communication", symbol="K", at_least=1, at_most=MANY, on_resume="grow")
    epochs: int = borrowed("epochs")
    batch: int | Literal["auto"] = option(
        "auto",
        "batch size; auto: the method's, at most a third of the median silo",
        symbol="B",
        at_least=1,
        at_most=2**31,
        per_method=True,
        follows_method=True,
    )
    lr: float | Literal["auto"] = option(
        "auto", "rate of local training", above=0, per_method=True, follows_method=True
    )
    lr_decay: float = option(
        1.0, "the rate is multiplied by this after every round", above=0, at_most=1, per_method=True
    )
    optimizer: Literal["auto", "adam", "sgd"] = option(
        "auto", "optimiser of local training", per_method=True, follows_method=True
    )
    momentum: float | Literal["auto"] = option(
        "auto",
        "momentum of sgd; auto: the method's own, 0 in most",
        at_least=0,
        below=1,
        per_method=True,
        follows_method=True,
    )
    val_fraction: float | Literal["auto"] = option(
        "auto",
        "share of each silo's training data set aside; auto: what the method needs",
        at_least=0,
        below=1,
        follows_method=True,
    )
    ending: Ending = option(
        "default",
        "after the last round, every silo goes on alone: for so many epochs; auto: until its held-out examples say it "
        "is enough; none: not at all; default: auto for Amity's own method and with safe, else none, as in papers",
        at_least=1,
        at_most=MANY,
        per_method=True,
    )
    safe: bool = option(
        False,
        "every silo trains alone as well, and delivers that model where it is clearly better on its held-out examples",
    )
    metric: MetricWord = option(
        "auto",
        "main score to compare by; auto: accuracy, or r2 of quantities",
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: each of a silo's classes has the same part in its training loss, rare ones too"
    )
