"""What a run gives back: the models that were judged, their numbers, and the cloud models beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from four_silos import (
    NAMES,
    OWN,
    arrays,
    dropping,
    equal,
    known,
    linear,
    network,
    own,
    quick,
    weights_of,
)
from report.reported_runs import Page
from safetensors.torch import load_file
from sklearn import metrics
from small import quickly

import amity
from amity import record
from amity.data import Silos
from amity.methods import METHODS
from amity.report import write_report
from amity.report.table import p_values


@pytest.mark.parametrize("method", quickly(METHODS))
def test_the_models_that_come_back_are_those_that_were_evaluated(method: str, tmp_path: Path) -> None:
    result = amity.run(quick(method), own(), model=network, out=tmp_path / "run")
    assert list(result.accuracy) == list(NAMES)
    for name, (_, _, x, y) in OWN.items():
        model = result.model(name)
        assert not model.training
        with torch.no_grad():
            right = (model(torch.from_numpy(x)).argmax(1) == torch.from_numpy(y)).numpy()
        assert result.accuracy[name] == 100 * right.sum() / len(y)
        with np.load(tmp_path / "run" / "predictions" / f"{name}.npz") as recorded:
            assert np.array_equal(recorded["last"], right)
        saved = load_file(tmp_path / "run" / "models" / f"{name}.safetensors")
        assert equal(saved, dict(model.state_dict()))
    means = known(line["mean"] for line in result.lines)
    assert result.bmta == max(means)
    assert means[-1] == pytest.approx(sum(result.accuracy.values()) / len(NAMES))
    assert result.summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert result.path == tmp_path / "run"


def test_a_model_with_dropout_predicts_without_it() -> None:
    result = amity.run(quick("fedavg-ft", rounds=1), own(), model=dropping)
    x = torch.from_numpy(OWN["north"][2])
    assert torch.equal(result.model("north")(x), result.model("north")(x))
    assert equal(
        weights_of(result), weights_of(amity.run(quick("fedavg-ft", rounds=1, workers=2), own(), model=dropping))
    )


def test_a_returned_model_is_the_users_own() -> None:
    result = amity.run(quick("separate"), own(), model=linear)
    before = {key: value.clone() for key, value in result.model("north").state_dict().items()}
    with torch.no_grad():
        result.model("north").get_parameter("weight").fill_(0)
    assert equal(dict(result.model("north").state_dict()), before)


def test_an_unknown_silo_names_the_nearest() -> None:
    result = amity.run(quick("separate", rounds=1), own(), model=linear)
    with pytest.raises(amity.InputError, match="did you mean north"):
        result.model("nort")


# Which round is delivered.


@pytest.mark.parametrize("method", quickly(name for name in METHODS if name != "pooled"))
def test_what_is_delivered_is_chosen_without_test_data(method: str, tmp_path: Path) -> None:
    """Rates that overshoot: a round before the last is the best on validation data, another one on test data."""
    rate = (
        0.1 if method in ("pfedme", "psgd-moreau") else 0.6
    )  # their pulls diverge at such rates, and they refuse them
    run = quick(method, rounds=6, epochs=1, val_fraction=0.25, lr=rate, ending="none")
    result = amity.run(run, own(), model=linear, out=tmp_path / "run")
    values = known(line["val"] for line in result.lines)
    chosen = result.lines[values.index(max(values))]
    assert all(0 <= value <= 100 for value in values)
    told = result.summary
    assert (
        (told["delivered_round"], told["chosen_by"]) == (chosen["round"], "validation") == (result.round, "validation")
    )
    assert told["delivered"] == result.best == chosen["mean"]
    assert told["per_client"] == chosen["accuracy"] == list(result.accuracy.values())
    assert told["metrics"] is not None
    assert (told["worst"], told["metrics"]["delivered"]) == (chosen["worst"], chosen["metrics"])
    for name, (_, _, x, y) in OWN.items():  # the models that are saved are those of that round
        with torch.no_grad():
            right = (result.model(name)(torch.from_numpy(x)).argmax(1) == torch.from_numpy(y)).numpy()
        assert result.accuracy[name] == 100 * right.sum() / len(y)
        with np.load(tmp_path / "run" / "predictions" / f"{name}.npz") as recorded:
            assert np.array_equal(recorded["delivered"], right)
        assert equal(
            load_file(tmp_path / "run" / "models" / f"{name}.safetensors"), dict(result.model(name).state_dict())
        )


def test_without_validation_data_the_last_round_is_delivered() -> None:
    plain = amity.run(quick("fedavg", rounds=6, lr=0.6), own(), model=linear)
    assert {line["val"] for line in plain.lines} == {None}
    assert (plain.round, plain.summary["chosen_by"], plain.best) == (6, "last round", plain.lines[-1]["mean"])
    means = known(line["mean"] for line in plain.lines)
    assert plain.bmta == max(means) > plain.best  # on test data one could do better


def test_metrics_are_those_of_the_personal_models() -> None:
    result = amity.run(quick("fedamp"), own(), model=linear)
    per_silo, means, told = result.lines[-1]["per_silo"], result.lines[-1]["metrics"], result.summary["metrics"]
    assert per_silo is not None and means is not None and told is not None
    assert told["delivered_per_client"] == per_silo
    for place, (name, (_, _, x, y)) in enumerate(OWN.items()):
        shares = torch.softmax(result.model(name)(torch.from_numpy(x)), 1).detach().double().numpy()
        guess = shares.argmax(1)
        f1 = metrics.f1_score(y, guess, average="macro")
        areas = [metrics.roc_auc_score(y == label, shares[:, label]) for label in np.unique(y)]
        assert per_silo["macro_f1"][place] == pytest.approx(100 * f1, abs=1e-3)
        assert per_silo["auroc"][place] == pytest.approx(100 * np.mean(areas), abs=1e-3)
    for key, values in per_silo.items():
        assert means[key] == pytest.approx(np.mean(known(values)), abs=1e-3)


def test_no_test_is_made_between_runs_on_different_test_data(tmp_path: Path) -> None:
    def recorded(name: str, silos: Silos, **options: Any) -> record.Record:
        amity.run(quick("fedavg", rounds=1, **options), silos, model=linear, out=tmp_path / name)
        return record.read(tmp_path / name)

    first, other = recorded("first", own()), recorded("other", own(east=arrays(9)))
    fewer = recorded("fewer", own(), per_silo=10)
    assert p_values([first, other]) is None
    assert first.facts["sha256"] != fewer.facts["sha256"] and p_values([first, fewer]) is not None
    other.facts["test_sha256"] = None  # of an earlier version: nothing is known
    assert p_values([first, other]) is not None


def test_results_and_silos_print_as_a_few_lines() -> None:
    result = amity.run(quick("fedavg"), own(), model=linear)
    assert (
        2 <= len(str(result).splitlines()) <= 6 and f"{result.best:.2f}" in str(result) and repr(result) == str(result)
    )
    assert 2 <= len(str(own()).splitlines()) <= 6 and "4 silos" in str(own()) and repr(own()) == str(own())
    many = amity.own_silos({f"s{number}": arrays(number, size=5, tests=3) for number in range(60)})
    assert len(str(many)) < 600


# The second output of attention methods: what the server mixed for each silo.


def test_the_cloud_models_are_those_of_the_last_round_by_hand(tmp_path: Path) -> None:
    """u_i^K = sum_j xi_ij w_j^(K-1): the weights of round K with the models that silos hold after round K - 1."""
    run = quick("fedamp", rounds=3, settings={"sigma": 1.0})
    before = amity.run(quick("fedamp", rounds=2, settings={"sigma": 1.0, "alpha": 1e4}), own(), model=linear)
    result = amity.run(run, own(), model=linear, out=tmp_path / "run")
    told = result.summary["cloud"]
    assert told is not None
    held = torch.stack([before.model(name).get_parameter("weight").detach().double() for name in NAMES])
    for place, name in enumerate(NAMES):
        expected = torch.einsum("j,jab->ab", torch.tensor(result.weights[3][place]).double(), held)
        assert torch.allclose(result.cloud(name).get_parameter("weight").double(), expected, atol=1e-5)
        x, y = (torch.from_numpy(part) for part in OWN[name][2:])
        right = (result.cloud(name)(x).argmax(1) == y).double().mean().item()
        assert told["per_client"][place] == pytest.approx(100 * right)
        assert equal(record.read(tmp_path / "run").clouds[name], dict(result.cloud(name).state_dict()))
    assert told["mean"] == pytest.approx(np.mean(known(told["per_client"])))
    shown = Page(write_report([record.read(tmp_path / "run")], tmp_path / "report.html")).view["methods"][0]["cloud"]
    assert shown is not None and shown["mean"] == pytest.approx(told["mean"], abs=1e-4)
    amity.run(quick("separate"), own(), model=linear, out=tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "clouds").exists()


def test_where_there_is_no_cloud_model_it_is_said() -> None:
    result = amity.run(quick("fedavg"), own(), model=linear)
    assert result.summary["cloud"] is None
    with pytest.raises(amity.InputError, match="fedavg has no cloud models"):
        result.cloud("north")
    some = amity.run(quick("fedamp", participation=0.5), own(), model=linear)
    asked = set(some.lines[-1]["took_part"])
    told = some.summary["cloud"]
    assert told is not None
    assert [value is not None for value in told["per_client"]] == [name in asked for name in NAMES]
    absent = next(name for name in NAMES if name not in asked)
    with pytest.raises(amity.InputError, match="was sent no cloud model in round 3"):
        some.cloud(absent)
    with pytest.raises(amity.InputError, match="did you mean north"):
        some.cloud("nort")
