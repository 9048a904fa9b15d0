"""Before round 1: what is refused, and what `auto` becomes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from four_silos import (
    CLASSES,
    FEATURES,
    OWN,
    Arrays,
    arrays,
    linear,
    own,
    quick,
)
from torch import nn

import amity
from amity.data import Silos
from amity.methods import METHODS, build
from amity.methods.fedavg import FedAvg
from amity.prepare import prepare

# Models and data that do not fit.


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Linear(FEATURES, CLASSES + 1), "one score per class"),
        (lambda: nn.Linear(FEATURES, CLASSES - 1), "one score per class"),
        (nn.Linear(FEATURES, CLASSES + 1), "one score per class"),
        (lambda: nn.LSTM(FEATURES, CLASSES), "one score per class"),
        (lambda: nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Flatten(0)), "one score per class"),
        (lambda: nn.Linear(FEATURES + 1, CLASSES), "shape"),
        (lambda: nn.Conv2d(1, CLASSES, 3), "shape"),
        (lambda: nn.Linear(FEATURES, CLASSES).requires_grad_(False), "parameter"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    model: Callable[[], nn.Module] | nn.Module, message: str, nowhere: Path
) -> None:
    with pytest.raises(amity.InputError, match=message):
        amity.run(quick(), own(), model=model, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


def spoilt(part: int, value: Any, place: Any = 3) -> Arrays:
    changed = [array.copy() for array in OWN["east"]]
    changed[part][place] = value
    return changed[0], changed[1], changed[2], changed[3]


@pytest.mark.parametrize(
    ("east", "classes", "message"),
    {
        "NaN to train on": (spoilt(0, np.nan), None, "east.*train.*finite.*row 3"),
        "infinity to test on": (spoilt(2, np.inf), None, "east.*test.*finite.*row 3"),
        "label above": (spoilt(1, CLASSES), CLASSES, "east.*train.*0 to 2.*got 3"),
        "label above in test": (spoilt(3, 7), CLASSES, "east.*test.*0 to 2.*got 7"),
        "label below": (spoilt(1, -1), None, "east.*train.*>= 0.*-1"),
        "labels that are no whole numbers": (
            (OWN["east"][0], OWN["east"][1] + 0.5, *OWN["east"][2:]),
            None,
            "east.*whole numbers",
        ),
        "nothing to train on": (arrays(2, size=0), None, "east.*train.*at least one"),
        "nothing to test on": (arrays(2, tests=0), None, "east.*test.*at least one"),
        "a label short": ((OWN["east"][0], OWN["east"][1][:-1], *OWN["east"][2:]), None, "east.*one label per example"),
        "other features": ((OWN["east"][0][:, :2], OWN["east"][1], *OWN["east"][2:]), None, "east.*shape"),
        "three arrays": (OWN["east"][:3], None, "east.*x_train"),
    }.values(),
)
def test_bad_data_are_refused(east: Any, classes: int | None, message: str) -> None:
    with pytest.raises(amity.InputError, match=message):
        amity.own_silos({**OWN, "east": east}, classes)


def test_no_silo_at_all_is_refused() -> None:
    with pytest.raises(amity.InputError, match="at least one silo"):
        amity.own_silos({})


def test_oracle_groups_need_groups(nowhere: Path) -> None:
    with pytest.raises(amity.InputError, match="self_weight=group"):
        amity.run(quick("fedamp", settings={"self_weight": "group"}), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


wrongly: Any = amity.run  # called with what no type checker would let pass


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wrongly(quick(), {}), "amity.own_silos gives, got dict"),
        (lambda: wrongly(quick(), {"a": arrays(5)}), "amity.own_silos gives, got dict"),
        (lambda: wrongly(quick(), [arrays(5)]), "amity.own_silos gives, got list"),
        (lambda: wrongly("fedavg", own()), "described by amity.Run, got 'fedavg'"),
        (lambda: wrongly("fedavg"), "described by amity.Run, got 'fedavg'"),
        (lambda: wrongly(quick(), own(), model="mlp"), "builds your nn.Module, or a module, got 'mlp'"),
        (lambda: wrongly(quick(), own(), model=lambda: None), "must return an nn.Module, got NoneType"),
        (lambda: wrongly(quick(), own(), method="fedamp"), "amity.Method, got 'fedamp', without paired"),
        (lambda: wrongly(quick(), own(), method=Mock(spec=FedAvg())), "amity.Method, got .*, no dataclass"),
        (lambda: wrongly(quick(), own(), method=FedAvg), "amity.Method, got FedAvg, the class itself"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(amity.InputError, match=words):
        call()


# What `auto` means.


def configured(run: amity.Run, silos: Silos, path: Path) -> dict[str, Any]:
    amity.run(run, silos, model=linear, out=path)
    return tomllib.loads((path / "config.toml").read_text())


@pytest.mark.parametrize(
    ("sizes", "third"),
    [((30, 61, 90), 20), ((30, 60, 62, 90), 20), ((2, 2, 2), 1), ((9, 3000, 3000), 1000)],
)
@pytest.mark.parametrize("method", ["heurfedamp", "fedacs", "apple"])
def test_auto_values_are_resolved_and_recorded(method: str, sizes: tuple[int, ...], third: int, tmp_path: Path) -> None:
    silos = amity.own_silos({f"s{i}": arrays(i, size, 4) for i, size in enumerate(sizes)}, CLASSES)
    protocol = build(method).solver
    config = configured(amity.Run(method, rounds=1, epochs=1), silos, tmp_path / "run")
    assert config["batch"] == min(protocol.batch, third)  # at most a third of the median silo
    assert (config["lr"], config["optimizer"]) == (protocol.rate, protocol.optimizer)
    assert config["momentum"] == protocol.momentum == (0.9 if method == "apple" else 0)
    assert (config["clients"], config["data"], config["setting"]) == (len(sizes), "own", "own")
    assert config["model"] == "linear"
    assert config["set"].keys() == {option["name"] for option in amity.methods.options_of(method)}


def test_given_values_are_kept(tmp_path: Path) -> None:
    given = {"batch": 500, "lr": 0.25, "optimizer": "sgd", "lr_decay": 0.5, "momentum": 0.75}
    config = configured(quick("fedavg", **given), own(), tmp_path / "run")
    assert {key: config[key] for key in given} == given


PLAIN = {"scaffold", "vrlsgd", "apfl", "pfedme", "perfedavg", "l2gd", *(name for name in METHODS if "psgd" in name)}
"""Methods whose equations are those of plain gradient steps."""


@pytest.mark.parametrize("method", METHODS)
def test_momentum_reaches_every_method_whose_equations_allow_it(method: str) -> None:
    run = quick(method, optimizer="sgd", momentum=0.5)
    if method in PLAIN:
        with pytest.raises(amity.InputError, match=r"needs plain sgd, got momentum 0.5: set momentum to 0$"):
            prepare(run, own(), model=linear)
        run = quick(method, optimizer="sgd", momentum=0)
    prepared = prepare(run, own(), model=linear)
    assert prepared.plan.solver.momentum == prepared.run.momentum == (0 if method in PLAIN else 0.5)


def test_without_being_told_momentum_is_the_methods_own_and_none_with_another_optimizer() -> None:
    found = {
        (method, optimizer): prepare(quick(method, optimizer=optimizer), own(), model=linear).plan.solver.momentum
        for method, optimizer in (("apple", "auto"), ("apple", "sgd"), ("heurfedamp", "auto"), ("heurfedamp", "sgd"))
    }
    assert list(found.values()) == [0.9, 0.9, 0, 0]
    assert prepare(quick("apple", momentum=0), own(), model=linear).plan.solver.momentum == 0


def test_momentum_without_sgd_is_refused_before_anything_is_written(nowhere: Path) -> None:
    said = (
        r"^momentum is a part of sgd, got momentum 0.9 with heurfedamp's optimizer adam: set .* or leave momentum out$"
    )
    with pytest.raises(amity.InputError, match=said):
        amity.run(quick(momentum=0.9), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]
    prepare(quick(momentum=0.0), own(), model=linear)  # as every config.toml of such a run says


def test_validation_data_are_taken_from_the_training_data(tmp_path: Path) -> None:
    config = configured(quick("fedavg", val_fraction=0.25), own(), tmp_path / "run")
    assert config["batch"] == 30 // 3  # 40 examples, less a quarter


def test_a_limit_per_silo_holds_before_validation_and_is_recorded(tmp_path: Path) -> None:
    config = configured(quick("fedavg", per_silo=25, val_fraction=0.25), own(), tmp_path / "run")
    assert config["per_silo"] == 25 and config["batch"] == 19 // 3  # 25 of 40 examples, less a quarter
    again = amity.run(quick("fedavg", per_silo=25, val_fraction=0.25), own(), model=linear)
    assert again.lines[-1]["accuracy"] == amity.record.read(tmp_path / "run").lines[-1]["accuracy"]
    with pytest.raises(amity.InputError, match="has per_silo = 25, got 24"):
        amity.run(
            quick("fedavg", per_silo=24, val_fraction=0.25), own(), model=linear, out=tmp_path / "run", resume=True
        )


# Options that cannot be used.


def test_an_optimizer_that_a_method_cannot_use_is_refused(nowhere: Path) -> None:
    with pytest.raises(amity.InputError, match="apple needs the optimizer sgd, got adam"):
        amity.run(quick("apple", optimizer="adam"), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 0},
        {"rounds": 2.0},
        {"rounds": True},
        {"lr": -1.0},
        {"lr": float("nan")},
        {"optimizer": "lbfgs"},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"participation": 0},
        {"local_epochs_range": "3"},
    ],
)
def test_a_run_is_checked_when_it_is_made(options: dict[str, Any]) -> None:
    with pytest.raises(amity.InputError, match=next(iter(options))):
        quick(**options)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"sigm": 1.0}, "did you mean sigma"), ({"sigma": "10"}, "sigma"), ({"sigma": 0}, "sigma")],
)
def test_settings_of_a_method_are_checked(settings: dict[str, Any], message: str, nowhere: Path) -> None:
    with pytest.raises(amity.InputError, match=message):
        amity.run(quick("fedamp", settings=settings), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


def test_epochs_of_any_length_are_refused_in_one_line() -> None:
    with pytest.raises(amity.InputError, match="local_epochs_range needs 1 <= LO <= HI"):
        quick(local_epochs_range="1:" + "9" * 5000)
    assert quick(local_epochs_range="01: 0009").who.local_epochs_range == (1, 9)


@pytest.mark.parametrize("settings", [[1], {1: 1}, "sigma=1"])
def test_settings_are_options_by_name(settings: Any) -> None:
    with pytest.raises(amity.InputError, match="options by name"):
        amity.Run("fedamp", settings=settings)
