"""`Run`, the description of a run. The command line, its help, config files and the Python API all come from it.

No torch here: `amity --help` must answer at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from amity.config.ending import Ending, all_rounds
from amity.config.lists import names_of_columns, span_of
from amity.config.options import check, fields_of, option
from amity.config.participation import MANY, Participation
from amity.config.privacy import Bound, Noise, Privacy, privacy_of
from amity.config.robust import Robust
from amity.errors import InputError
from amity.metric import MetricWord


def _borrowed(name: str) -> Any:
    """Return an option of Participation as a field of `Run`, so that it is declared once."""
    source = fields_of(Participation)[name]
    return field(default=source.default, metadata=source.metadata)


@dataclass(frozen=True)
class Run:
    """One run: a method on a federation. `auto` values follow the method's own protocol.

    >>> run = amity.Run("fedamp", data="digits", clients=20, rounds=15, settings={"sigma": 50.0})
    >>> run.epochs, run.batch
    (5, 'auto')
    """

    method: str = option("heurfedamp", "the method")
    data: str = option("digits", "data set (see `amity data list`), or folder:PATH for your own silos", deals=True)
    setting: str = option(
        "auto",
        "how the data fall to the silos, NAME or NAME:key=value,key=value (see `amity settings`); "
        "auto: natural silos, else practical",
        deals=True,
    )
    clients: int | Literal["auto"] = option(
        "auto",
        "number of silos; auto: as many as the data come in, else the setting's own",
        symbol="m",
        at_least=1,
        deals=True,
    )
    per_silo: int = option(0, "at most this many training examples per silo, a random part; 0 for all", at_least=0)
    test_fraction: float = option(
        0.2, "share of each silo's data held out where they bring no test part", above=0, below=1, deals=True
    )
    labels: Literal["auto", "classes", "quantities"] = option(
        "auto",
        "what the labels of folder:PATH are; auto: quantities (regression) if one has a fraction or they hardly repeat",
        deals=True,
    )
    label: str = option(
        "auto",
        "column of the labels in tables of folder:PATH; auto: the one called label, target, y, outcome or class",
        deals=True,
    )
    drop_column: str = option(
        "none",
        "columns of such tables to leave out, comma-separated (a name with a comma in double quotes); may be repeated",
        deals=True,
        repeatable=True,
    )
    schema: str = option(
        "none",
        "file that says what the columns of such tables are (`amity data schema`); none: silos agree",
        deals=True,
    )
    scale: Literal["auto", "none"] = option(
        "auto",
        "numbers of such tables less their mean over their deviation, over all silos; none: as they are",
        deals=True,
    )
    model: str = option("auto", "model: mlr, mlp, cnn, cnn-apple, resnet18, cnn1d; auto picks by the data")
    rounds: int = option(20, "rounds of communication", symbol="K", at_least=1, at_most=MANY, on_resume="grow")
    epochs: int = _borrowed("epochs")
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
    robust: Robust = option(
        "off",
        "protection against bad silos; norm: refuse uploads that moved much further than the median one, or came "
        "before; median, trimmed, krum, clip: that, and this mean of models in methods that average",
        per_method=True,
    )
    min_mix: int = option(
        1,
        "what a silo is sent mixes models of at least so many others, or of none, so that it can work out no single "
        "one; 1: as the method says",
        at_least=1,
        at_most=MANY,
    )
    min_count: int = option(
        1,
        "a silo tells nothing of its own examples that rests on fewer than so many of them: no score where fewer were "
        "tested, right or wrong; 1: it tells all",
        at_least=1,
        at_most=MANY,
    )
    encrypted: bool = option(
        False,
        "the server computes with models that it cannot read (CKKS): for fedamp, heurfedamp, fedacs and twin, in a "
        "simulation; docs/encrypted.md says what it protects from",
    )
    metric: MetricWord = option(
        "auto",
        "main score to compare by; auto: accuracy, or r2 of quantities",
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: each of a silo's classes has the same part in its training loss, rare ones too"
    )
    dp_noise: Noise = option(
        "none",
        "differential privacy: noise in every gradient, as a multiple of dp_clip; epsilon is on record",
        symbol="sigma",
        above=0,
        at_most=1e6,
    )
    dp_epsilon: Noise = option(
        "none",
        "the same, with the noise that keeps every silo's epsilon of the whole run within this",
        symbol="epsilon",
        above=0,
        at_most=1e6,
    )
    dp_clip: Bound = option(
        "auto", "longest gradient of one example, under differential privacy; auto: 1", symbol="C", above=0
    )
    dp_delta: Bound = option(
        "auto",
        "delta that goes with epsilon; auto: 1 / (10 n) at a silo with n training examples",
        symbol="delta",
        above=0,
        below=1,
    )
    evaluate_every: int = option(
        1,
        "rounds between evaluations, the last round always has one; others cost no evaluation",
        at_least=1,
        on_resume="free",
    )
    train_loss: bool = option(False, "measure the loss on training data too, without any penalty, when evaluating")
    init_from: str = option("none", "start from the weights in this safetensors file")
    seed: int = option(0, "seed of data split, first weights and every random draw", at_least=0, deals=True)
    workers: int | Literal["auto"] = option(
        "auto",
        "threads, or processes with ray; auto: all cores; results do not depend on it",
        at_least=1,
        on_resume="free",
        neutral=True,
    )
    engine: Literal["auto", "loop", "stacked", "memory", "ray"] = option(
        "auto",
        "loop: silos one by one; stacked: small dense models all at once, equal up to rounding; auto: by the model; "
        "memory: one by one, every message as bytes; ray: one by one in processes of a Ray cluster",
        on_resume="free",
        neutral=True,
    )
    ray_address: str = option(
        "local",
        "the Ray cluster: local starts one for this run, auto joins a running one",
        on_resume="free",
        neutral=True,
    )
    matrix_dir: str = option(
        "none", "keep matrices of models in memory-mapped files in this directory", on_resume="free", neutral=True
    )
    device: str = option("cpu", "where to compute: cpu, cuda, cuda:1, mps", neutral=True)
    participation: float | Literal["auto"] = option(
        "auto", "share of the silos sampled in each round; auto: the setting's own, 1 in most", above=0, at_most=1
    )
    drop: float = _borrowed("drop")
    drop_phase: Literal["before", "after"] = _borrowed("drop_phase")
    local_epochs_range: str = option("none", "LO:HI: every silo draws its own number of epochs in each round")
    checkpoint_every: int | Literal["auto"] = option(
        "auto",
        "rounds between checkpoints, 0 for none before the end; auto: by size",
        at_least=0,
        on_resume="free",
        neutral=True,
    )
    settings: Mapping[str, Any] = field(default_factory=dict)  # the method's own options

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.settings, Mapping) or not all(isinstance(key, str) for key in self.settings):
            raise InputError(f"settings are a method's options by name, got {self.settings!r}: try {{'sigma': 50.0}}")
        _ = self.who  # refuse a bad range now, not in round 1
        _ = self.dropped
        _ = self.privacy

    @property
    def who(self) -> Participation:
        """The silos that take part in each round, and how long they train."""
        span = None if self.local_epochs_range == "none" else span_of(self.local_epochs_range)
        share = 1.0 if self.participation == "auto" else self.participation
        ending = self.all_rounds if self.all_rounds > self.rounds else 0
        return Participation(share, self.drop, self.drop_phase, self.epochs, span, ending)

    @property
    def all_rounds(self) -> int:
        """The rounds on record when a resolved run is over: with the ending, where there is one."""
        return all_rounds(vars(self))

    @property
    def privacy(self) -> Privacy | None:
        """What silos promise about any one training example; None without differential privacy."""
        return privacy_of(self)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the columns that are left out."""
        return () if self.drop_column == "none" else names_of_columns(self.drop_column)

    def table(self) -> dict[str, Any]:
        """Return the run as a config file holds it: its options, then those of the method under [set]."""
        flat = {name: getattr(self, name) for name in fields_of(Run)}
        return {**flat, "set": dict(self.settings)}
