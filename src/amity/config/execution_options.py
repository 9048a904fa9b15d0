"""Options of a run: how it goes on. Evaluation, engine and machine, who takes part, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from amity.config.options import option
from amity.config.participation import borrowed


@dataclass(frozen=True)
class ExecutionOptions:
    """The part of a `Run` that says how it is carried out."""

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
    drop: float = borrowed("drop")
    drop_phase: Literal["before", "after"] = borrowed("drop_phase")
    local_epochs_range: str = option("none", "LO:HI: every silo draws its own number of epochs in each round")
    checkpoint_every: int | Literal["auto"] = option(
        "auto",
        "rounds between checkpoints, 0 for none before the end; auto: by size",
        at_least=0,
        on_resume="free",
        neutral=True,
    )
