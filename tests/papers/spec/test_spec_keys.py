"""The name of a run on disk: it changes with what changes the outcome, and with nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from amity.config.options import fields_of
from amity.config.run import Run
from amity.papers import spec

RUN = Run(method="fedamp", data="mnist", setting="iid", settings={"sigma": 2.0})
FREE: Mapping[str, Any] = {
    "workers": 7,
    "engine": "loop",
    "ray_address": "auto",
    "matrix_dir": "elsewhere",
    "device": "cuda",
    "checkpoint_every": 3,
}
OTHER: Mapping[str, Any] = {
    "method": "heurfedamp",
    "data": "fmnist",
    "setting": "practical",
    "clients": 7,
    "per_silo": 9,
    "test_fraction": 0.3,
    "model": "mlp",
    "rounds": 77,
    "epochs": 7,
    "batch": 7,
    "lr": 0.7,
    "lr_decay": 0.7,
    "optimizer": "sgd",
    "momentum": 0.7,
    "val_fraction": 0.3,
    "init_from": "file",
    "seed": 7,
    "participation": 0.5,
    "drop": 0.5,
    "drop_phase": "after",
    "local_epochs_range": "1:7",
    "evaluate_every": 7,
    "train_loss": True,
    "metric": "balanced",
    "ending": 7,
    "safe": True,
    "robust": "norm",
    "min_mix": 3,
    "min_count": 3,
    "encrypted": True,
    "class_weights": "balanced",
    "dp_noise": 1.0,
    "dp_epsilon": 4.0,
    "labels": "classes",
    "label": "ill",
    "drop_column": "id",
    "schema": "schema.toml",
    "scale": "none",
}


NOISY: Mapping[str, Any] = {"dp_clip": 0.5, "dp_delta": 1e-6}  # which mean nothing without noise


@pytest.mark.parametrize("option", FREE)
def test_what_does_not_change_the_outcome_does_not_change_the_name(option: str) -> None:
    assert spec.key_of(replace(RUN, **{option: FREE[option]})) == spec.key_of(RUN)


@pytest.mark.parametrize("option", [option for option in OTHER if option in fields_of(Run)])
def test_what_changes_the_outcome_changes_the_name(option: str) -> None:
    assert spec.key_of(replace(RUN, **{option: OTHER[option]})) != spec.key_of(RUN)


@pytest.mark.parametrize("option", NOISY)
def test_what_changes_the_noise_changes_the_name(option: str) -> None:
    noisy = replace(RUN, dp_noise=1.0)
    assert spec.key_of(replace(noisy, **{option: NOISY[option]})) != spec.key_of(noisy)


def test_every_option_of_a_run_is_of_one_kind_or_the_other() -> None:
    assert set(fields_of(Run)) <= set(FREE) | set(OTHER) | set(NOISY)


def test_a_methods_options_change_the_name_whatever_their_order() -> None:
    both = replace(RUN, settings={"sigma": 2.0, "start": "own"})
    assert spec.key_of(both) != spec.key_of(RUN)
    assert spec.key_of(both) == spec.key_of(replace(RUN, settings={"start": "own", "sigma": 2.0}))
    assert spec.key_of(replace(RUN, settings={"sigma": 3.0})) != spec.key_of(RUN)


def test_the_name_says_what_it_is() -> None:
    assert spec.key_of(RUN).startswith("mnist-iid-fedamp-")
    assert spec.key_of(replace(RUN, setting="dirichlet:alpha=0.1")).startswith("mnist-dirichlet-fedamp-")


def test_a_key_names_what_matters_and_nothing_else() -> None:
    run = Run(method="separate")
    assert spec.key_of(run) == spec.key_of(Run(method="separate", workers=1, engine="loop", device="cpu"))
    others = [Run(method="fedavg"), Run(method="separate", seed=1), Run(method="separate", rounds=21)]
    others += [Run(method="separate", settings={"init": "independent"}), Run(method="separate", setting="iid")]
    keys = {spec.key_of(other) for other in (run, *others)}
    assert len(keys) == 1 + len(others)
