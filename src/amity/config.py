"""What a run is asked to do. The command line, its help, config files and the Python API all come from here.

No torch here: `amity --help` must answer at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from amity.errors import InputError
from amity.options import check, fields_of, option, unknown

MANY = 10**6
"""More rounds or epochs than anybody means."""


@dataclass(frozen=True)
class Participation:
    """Who takes part in each round, and for how long."""

    participation: float = option(1.0, "share of the silos sampled in each round", above=0, at_most=1)
    drop: float = option(0.0, "share of the sampled silos that drop out", at_least=0, at_most=1)
    drop_phase: Literal["before", "after"] = option("before", "they drop before training, or lose their upload after")
    epochs: int = option(5, "local epochs per round", symbol="E", at_least=1, at_most=MANY)
    local_epochs_range: tuple[int, int] | None = None  # each silo's own epochs, redrawn every round

    def __post_init__(self) -> None:
        check(self)
        low, high = self.local_epochs_range or (1, 1)
        if not 1 <= low <= high <= MANY:
            raise InputError(f"local_epochs_range needs 1 <= LO <= HI <= {MANY}, got {low}:{high}: try 1:9")


def _borrowed(name: str) -> Any:
    """An option of Participation, declared once and offered by a run too."""
    source = fields_of(Participation)[name]
    return field(default=source.default, metadata=source.metadata)


@dataclass(frozen=True)
class Run:
    """One run: a method on a federation. `auto` values follow the method's own protocol."""

    method: str = option("heurfedamp", "the method")
    data: str = option("digits", "data set (see `amity data list`), or folder:PATH for your own silos")
    setting: str = option(
        "auto",
        "how the data fall to the silos, NAME or NAME:key=value,key=value (see `amity settings`); "
        "auto: natural silos, else practical",
    )
    clients: int | Literal["auto"] = option(
        "auto", "number of silos; auto: as many as the data come in, else the setting's own", symbol="m", at_least=1
    )
    per_silo: int = option(0, "at most this many training examples per silo, a random part; 0 for all", at_least=0)
    test_fraction: float = option(
        0.2, "share of each silo's data held out where they bring no test part", above=0, below=1
    )
    labels: Literal["auto", "classes", "quantities"] = option(
        "auto",
        "what the labels of folder:PATH are; auto: quantities (regression) if one has a fraction or they hardly repeat",
    )
    model: str = option("auto", "model: mlr, mlp, cnn, cnn-apple, resnet18; auto picks by the data")
    rounds: int = option(20, "rounds of communication", symbol="K", at_least=1, at_most=MANY)
    epochs: int = _borrowed("epochs")
    batch: int | Literal["auto"] = option(
        "auto",
        "batch size; auto: the method's, at most a third of the median silo",
        symbol="B",
        at_least=1,
        at_most=2**31,
    )
    lr: float | Literal["auto"] = option("auto", "rate of local training", above=0)
    lr_decay: float = option(1.0, "the rate is multiplied by this after every round", above=0, at_most=1)
    optimizer: Literal["auto", "adam", "sgd"] = option("auto", "optimiser of local training")
    val_fraction: float | Literal["auto"] = option(
        "auto", "share of each silo's training data set aside; auto: what the method needs", at_least=0, below=1
    )
    evaluate_every: int = option(
        1, "rounds between evaluations, the last round always has one; others cost no evaluation", at_least=1
    )
    train_loss: bool = option(False, "measure the loss on training data too, without any penalty, when evaluating")
    init_from: str = option("none", "start from the weights in this safetensors file")
    seed: int = option(0, "seed of data split, first weights and every random draw", at_least=0)
    workers: int | Literal["auto"] = option(
        "auto", "threads, or processes with ray; auto: all cores; results do not depend on it", at_least=1
    )
    engine: Literal["auto", "loop", "stacked", "ray"] = option(
        "auto",
        "loop: silos one by one; stacked: small dense models all at once, equal up to rounding; auto: by the model; "
        "ray: one by one in processes of a Ray cluster",
    )
    ray_address: str = option("local", "the Ray cluster: local starts one for this run, auto joins a running one")
    matrix_dir: str = option("none", "keep matrices of models in memory-mapped files in this directory")
    device: str = option("cpu", "where to compute: cpu, cuda, cuda:1, mps")
    participation: float | Literal["auto"] = option(
        "auto", "share of the silos sampled in each round; auto: the setting's own, 1 in most", above=0, at_most=1
    )
    drop: float = _borrowed("drop")
    drop_phase: Literal["before", "after"] = _borrowed("drop_phase")
    local_epochs_range: str = option("none", "LO:HI: every silo draws its own number of epochs in each round")
    checkpoint_every: int | Literal["auto"] = option(
        "auto", "rounds between checkpoints, 0 for none before the end; auto: by size", at_least=0
    )
    settings: Mapping[str, Any] = field(default_factory=dict)  # the method's own options

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.settings, Mapping) or not all(isinstance(key, str) for key in self.settings):
            raise InputError(f"settings are a method's options by name, got {self.settings!r}: try {{'sigma': 50.0}}")
        _ = self.who  # refuse a bad range now, not in round 1

    @property
    def who(self) -> Participation:
        span = None if self.local_epochs_range == "none" else _span(self.local_epochs_range)
        share = 1.0 if self.participation == "auto" else self.participation
        return Participation(share, self.drop, self.drop_phase, self.epochs, span)

    def table(self) -> dict[str, Any]:
        """As a config file has it: options, then the method's own under [set]."""
        flat = {name: getattr(self, name) for name in fields_of(Run)}
        return {**flat, "set": dict(self.settings)}


def _span(text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    if colon and all(part.isascii() and part.strip().isdigit() for part in (low, high)):
        low, high = (part.strip().lstrip("0")[:20] or "0" for part in (low, high))  # what is too large is refused later
        return int(low), int(high)
    raise InputError(f"local_epochs_range needs LO:HI, two whole numbers, got {text!r}: try 1:9")


def read_config(path: str | Path) -> dict[str, Any]:
    """A config file: a run's options by name, method options under [set]; `methods` for a comparison."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the config file {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the config file {path} is not valid TOML: {error}") from None
    for key, value in content.items():
        if key not in (*fields_of(Run), "methods", "set"):
            raise unknown(f"key in {path}:", key, [*fields_of(Run), "methods", "set"])
        if (key == "set") != isinstance(value, dict):
            raise InputError(f"in {path} method options stand in the table [set], all other keys above it: move {key}")
    named = [content.get("method", ""), *_listed(content.get("methods", []))]
    if not all(isinstance(name, str) for name in named):
        raise InputError(f"in {path} method is a name and methods a list of names: put them in quotes")
    return content


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [None]
