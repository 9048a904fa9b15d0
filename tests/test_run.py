"""The Python way in: own data, own model, own method, and what comes back."""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn import metrics
from torch import Generator, Tensor, nn

import amity
from amity import record
from amity.contract import model_of
from amity.data import Silos
from amity.methods import METHODS, build
from amity.methods.fedavg import FedAvg
from amity.report import figures, write_report
from amity.report.table import p_values
from amity.run import carry_out, prepare
from amity.train import train

FEATURES, CLASSES = 6, 3
NAMES = ("north", "south", "east", "west")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def arrays(seed: int, size: int = 40, tests: int = 20) -> Arrays:
    """x_train, y_train, x_test, y_test: labels by a linear rule."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size + tests, FEATURES)).astype("float32")
    y = (x @ rng.normal(size=(FEATURES, CLASSES))).argmax(1)
    y[:CLASSES] = range(CLASSES)  # every class occurs
    return x[:size], y[:size], x[size:], y[size:]


OWN = {name: arrays(seed) for seed, name in enumerate(NAMES)}


def own(**changes: Arrays) -> Silos:
    return amity.federation({**OWN, **changes})


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, CLASSES))


def quick(method: str = "heurfedamp", **options: Any) -> amity.Run:
    return amity.Run(method, **{"rounds": 3, "epochs": 2, "workers": 1, "lr": 0.05, **options})


def found(result: amity.Result) -> dict[str, Any]:
    return {key: value for key, value in result.summary.items() if key != "seconds"}


def weights_of(result: amity.Result) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": value for name in result.accuracy for key, value in result.model(name).state_dict().items()
    }


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory that is the current one and has the one for temporary files: what is left in it was left behind."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


# Every method, one after another, gives back the models it was judged by.


@pytest.mark.parametrize("method", METHODS)
def test_the_models_that_come_back_are_those_that_were_evaluated(method: str, tmp_path: Path) -> None:
    result = amity.execute(quick(method), own(), model=network, out=tmp_path / "run")
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
    means = [line["mean"] for line in result.lines]
    assert result.bmta == max(means)
    assert means[-1] == pytest.approx(sum(result.accuracy.values()) / len(NAMES))
    assert result.summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert result.path == tmp_path / "run"


@pytest.mark.parametrize("phase", ["before", "after"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "pooled"])  # there nobody can be absent
def test_every_method_stands_absent_and_uneven_clients(method: str, phase: Literal["before", "after"]) -> None:
    silos = amity.federation({f"s{i}": arrays(i, size=7 + 5 * i, tests=6) for i in range(8)})
    run = quick(method, participation=0.3, drop=0.3, drop_phase=phase, local_epochs_range="1:9", rounds=3)
    result = amity.execute(run, silos, model=network)
    assert len(result.lines) == 3
    for line in result.lines:  # 2 of 8 are sampled, 1 of these drops
        assert len(line["took_part"]) == len(line["dropped"]) == 1
        assert all(1 <= epochs <= 9 for epochs in line["epochs"].values())
        assert all(0 <= accuracy <= 100 for accuracy in line["accuracy"])
    assert all(torch.isfinite(value).all() for value in weights_of(result).values())


def test_learning_helps() -> None:
    """Labels follow a linear rule: a linear model must find it."""
    result = amity.execute(quick("separate", rounds=20), own(), model=linear)
    assert result.lines[-1]["mean"] > result.lines[0]["mean"]
    assert result.bmta > 75


# Own models.


def test_a_module_gives_the_first_weights() -> None:
    module = linear()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    still = quick("separate", optimizer="sgd", lr=1e-30)  # steps that a float32 does not feel
    result = amity.execute(still, own(), model=module)
    for name in NAMES:
        assert equal(dict(result.model(name).state_dict()), before)
    amity.execute(quick("separate"), own(), model=module)
    assert equal(dict(module.state_dict()), before)


def test_a_factory_gives_the_architecture_and_the_seed_its_weights() -> None:
    first, again, other = (
        weights_of(amity.execute(quick(seed=seed, epochs=1), own(), model=linear)) for seed in (0, 0, 1)
    )
    assert equal(first, again)
    assert not equal(first, other)


def test_a_model_with_dropout_predicts_without_it() -> None:
    result = amity.execute(quick("fedavg-ft", rounds=1), own(), model=dropping)
    x = torch.from_numpy(OWN["north"][2])
    assert torch.equal(result.model("north")(x), result.model("north")(x))
    assert equal(
        weights_of(result), weights_of(amity.execute(quick("fedavg-ft", rounds=1, workers=2), own(), model=dropping))
    )


def test_a_returned_model_is_the_users_own() -> None:
    result = amity.execute(quick("separate"), own(), model=linear)
    before = {key: value.clone() for key, value in result.model("north").state_dict().items()}
    with torch.no_grad():
        result.model("north").get_parameter("weight").fill_(0)
    assert equal(dict(result.model("north").state_dict()), before)


def test_an_unknown_silo_names_the_nearest() -> None:
    result = amity.execute(quick("separate", rounds=1), own(), model=linear)
    with pytest.raises(amity.InputError, match="did you mean north"):
        result.model("nort")


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
        amity.execute(quick(), own(), model=model, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


# Own data.


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
        amity.federation({**OWN, "east": east}, classes)


def test_no_silo_at_all_is_refused() -> None:
    with pytest.raises(amity.InputError, match="at least one silo"):
        amity.federation({})


def test_a_single_silo_is_enough() -> None:
    result = amity.execute(quick("heurfedamp"), amity.federation({"only": OWN["north"]}), model=linear)
    assert list(result.accuracy) == ["only"]
    assert np.array_equal(result.weights[3], [[1.0]])


def test_oracle_groups_need_groups(nowhere: Path) -> None:
    with pytest.raises(amity.InputError, match="self_weight=group"):
        amity.execute(quick("fedamp", settings={"self_weight": "group"}), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


# Own methods.


@dataclass(frozen=True)
class Alone:
    """What `separate` does, written by a user."""

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[amity.Solver] = amity.Solver("adam", 1e-3)
    optimizers: ClassVar[tuple[str, ...]] = ("adam",)

    def init_server(self, task: amity.Task, fed: amity.Federation) -> amity.State:
        return {}

    def init_client(self, task: amity.Task, fed: amity.Federation, client: int) -> amity.State:
        return task.initial(fed)

    def download(
        self, server: amity.State, who: Tensor, round: int, rng: Callable[[str, int], Generator]
    ) -> amity.Download:
        return amity.Download({}, {})

    def local(
        self, task: amity.Task, client: amity.State, down: amity.State, turn: amity.Turn
    ) -> tuple[amity.State, amity.State]:
        return train(task, model_of(client), turn), {}

    def aggregate(self, server: amity.State, who: Tensor, uploads: amity.State, round: int) -> amity.State:
        return server

    def personal(
        self, task: amity.Task, client: amity.State, down: amity.State | None, turn: amity.Turn
    ) -> amity.Model:
        return model_of(client)


def test_an_own_method_runs_like_a_built_in_one() -> None:
    mine = amity.execute(quick(), own(), model=network, method=Alone())
    theirs = amity.execute(quick("separate"), own(), model=network)
    assert mine.accuracy == theirs.accuracy
    assert equal(weights_of(mine), weights_of(theirs))


def test_an_own_method_is_recorded_under_its_own_name(tmp_path: Path) -> None:
    result = amity.execute(quick(rounds=1), own(), model=linear, method=Alone(), out=tmp_path / "run")
    assert result.summary["method"].lower() == "alone"
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["method"].lower() == "alone"


def test_an_own_method_chooses_its_optimizers() -> None:
    with pytest.raises(amity.InputError, match="(?i)alone.*adam.*sgd"):
        amity.execute(quick(optimizer="sgd"), own(), model=linear, method=Alone())


# What is kept, and what `auto` means.


def test_without_out_nothing_is_left_on_disk(nowhere: Path) -> None:
    result = amity.execute(quick(), own(), model=linear)
    assert result.path is None
    assert len(result.lines) == 3 and list(result.weights) == [1, 2, 3]

    def stop(line: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amity.execute(quick(), own(), model=linear, on_round=stop)
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


def test_out_changes_nothing_but_the_disk(tmp_path: Path) -> None:
    kept = amity.execute(quick("apple"), own(), model=network, out=tmp_path / "run")
    passing = amity.execute(quick("apple"), own(), model=network)
    assert found(kept) == found(passing)
    assert equal(weights_of(kept), weights_of(passing))


def configured(run: amity.Run, silos: Silos, path: Path) -> dict[str, Any]:
    amity.execute(run, silos, model=linear, out=path)
    return tomllib.loads((path / "config.toml").read_text())


@pytest.mark.parametrize(
    ("sizes", "third"),
    [((30, 61, 90), 20), ((30, 60, 62, 90), 20), ((2, 2, 2), 1), ((9, 3000, 3000), 1000)],
)
@pytest.mark.parametrize("method", ["heurfedamp", "fedacs", "apple"])
def test_auto_values_are_resolved_and_recorded(method: str, sizes: tuple[int, ...], third: int, tmp_path: Path) -> None:
    silos = amity.federation({f"s{i}": arrays(i, size, 4) for i, size in enumerate(sizes)}, CLASSES)
    protocol = build(method).solver
    config = configured(amity.Run(method, rounds=1, epochs=1), silos, tmp_path / "run")
    assert config["batch"] == min(protocol.batch, third)  # at most a third of the median silo
    assert (config["lr"], config["optimizer"]) == (protocol.rate, protocol.optimizer)
    assert (config["clients"], config["data"], config["setting"]) == (len(sizes), "own", "own")
    assert config["model"] == "linear"
    assert config["set"].keys() == {option["name"] for option in amity.methods.options_of(method)}


def test_given_values_are_kept(tmp_path: Path) -> None:
    config = configured(quick("fedavg", batch=500, lr=0.25, optimizer="sgd", lr_decay=0.5), own(), tmp_path / "run")
    assert (config["batch"], config["lr"], config["optimizer"], config["lr_decay"]) == (500, 0.25, "sgd", 0.5)


def test_validation_data_are_taken_from_the_training_data(tmp_path: Path) -> None:
    config = configured(quick("fedavg", val_fraction=0.25), own(), tmp_path / "run")
    assert config["batch"] == 30 // 3  # 40 examples, less a quarter


def test_a_limit_per_silo_holds_before_validation_and_is_recorded(tmp_path: Path) -> None:
    config = configured(quick("fedavg", per_silo=25, val_fraction=0.25), own(), tmp_path / "run")
    assert config["per_silo"] == 25 and config["batch"] == 19 // 3  # 25 of 40 examples, less a quarter
    again = amity.execute(quick("fedavg", per_silo=25, val_fraction=0.25), own(), model=linear)
    assert again.lines[-1]["accuracy"] == amity.record.read(tmp_path / "run").lines[-1]["accuracy"]
    with pytest.raises(amity.InputError, match="has per_silo = 25, got 24"):
        amity.execute(
            quick("fedavg", per_silo=24, val_fraction=0.25), own(), model=linear, out=tmp_path / "run", resume=True
        )


def test_auto_picks_a_model_by_the_data(tmp_path: Path) -> None:
    run = amity.Run("separate", data="digits", setting="iid", clients=2, rounds=1, epochs=1)
    assert amity.execute(run).summary["model"] == "mlp"


def test_an_optimizer_that_a_method_cannot_use_is_refused(nowhere: Path) -> None:
    with pytest.raises(amity.InputError, match="apple needs the optimizer sgd, got adam"):
        amity.execute(quick("apple", optimizer="adam"), own(), model=linear, out="run")
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
        amity.execute(quick("fedamp", settings=settings), own(), model=linear, out="run")
    assert sorted(p.name for p in nowhere.rglob("*")) == ["temporary"]


# While it runs, and after a stop.


def test_on_round_sees_the_lines_and_notify_the_clients() -> None:
    seen: list[dict[str, Any]] = []
    told: list[tuple[str, int, int]] = []
    result = amity.execute(
        quick(rounds=2), own(), model=linear, on_round=seen.append, notify=lambda *step: told.append(step)
    )
    assert seen == result.lines
    assert told == 2 * [(phase, done, 4) for phase in ("train", "evaluate") for done in range(5)]


@pytest.mark.parametrize("every", ["auto", 0, 2])
@pytest.mark.parametrize("method", ["heurfedamp", "fedavg-local", "apple"])
def test_resumed_equals_uninterrupted(method: str, every: int | Literal["auto"], tmp_path: Path) -> None:
    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 3:
            raise KeyboardInterrupt

    run = quick(method, rounds=5, epochs=1, checkpoint_every=every, participation=0.6)
    with pytest.raises(KeyboardInterrupt):
        amity.execute(run, own(), model=network, out=tmp_path / "run", on_round=stop)
    rounds: list[int] = []
    resumed = amity.execute(
        run, own(), model=network, out=tmp_path / "run", resume=True, on_round=lambda line: rounds.append(line["round"])
    )
    whole = amity.execute(run, own(), model=network)
    assert rounds == [4, 5]
    assert found(resumed) == found(whole)
    assert equal(weights_of(resumed), weights_of(whole))
    assert all(np.array_equal(resumed.weights[n], whole.weights[n], equal_nan=True) for n in whole.weights)


def test_the_validated_round_is_chosen_without_test_data() -> None:
    result = amity.execute(quick("fedavg", rounds=6, val_fraction=0.25, lr=0.3), own(), model=linear)
    values = [line["val"] for line in result.lines]
    chosen = result.lines[values.index(max(values))]
    assert all(0 <= value <= 100 for value in values)
    assert result.summary["validated_round"] == chosen["round"]
    assert result.summary["validated"] == chosen["mean"]
    assert result.summary["validated_per_client"] == chosen["accuracy"]
    assert result.summary["metrics"]["validated"] == chosen["metrics"]
    plain = amity.execute(quick("fedavg"), own(), model=linear)
    assert {line["val"] for line in plain.lines} == {None}
    assert plain.summary["validated"] is plain.summary["validated_per_client"] is None


def test_metrics_are_those_of_the_personal_models() -> None:
    result = amity.execute(quick("fedamp"), own(), model=linear)
    per_silo = result.lines[-1]["per_silo"]
    assert result.summary["metrics"]["last_per_client"] == per_silo
    for place, (name, (_, _, x, y)) in enumerate(OWN.items()):
        shares = torch.softmax(result.model(name)(torch.from_numpy(x)), 1).detach().double().numpy()
        guess = shares.argmax(1)
        f1 = metrics.f1_score(y, guess, average="macro")
        areas = [metrics.roc_auc_score(y == label, shares[:, label]) for label in np.unique(y)]
        assert per_silo["macro_f1"][place] == pytest.approx(100 * f1, abs=1e-3)
        assert per_silo["auroc"][place] == pytest.approx(100 * np.mean(areas), abs=1e-3)
    for key, values in per_silo.items():
        assert result.lines[-1]["metrics"][key] == pytest.approx(np.mean(values), abs=1e-3)


def test_seldom_evaluated_runs_are_the_same_runs(tmp_path: Path) -> None:
    """Stopped before the first evaluation, resumed, and the best of the evaluated rounds alone."""

    def stop(line: dict[str, Any]) -> None:
        if line["round"] == 1:
            raise KeyboardInterrupt

    often = amity.execute(quick("fedavg-ft", rounds=5), own(), model=network)
    run = quick("fedavg-ft", rounds=5, evaluate_every=2)
    with pytest.raises(KeyboardInterrupt):
        amity.execute(run, own(), model=network, out=tmp_path / "run", on_round=stop)
    begun = amity.record.read(tmp_path / "run").results
    assert (begun["bmta"], begun["best_round"], begun["last"], begun["worst"]) == (None,) * 4
    assert begun["per_client"] == []
    write_report([amity.record.read(tmp_path / "run")], tmp_path / "begun.html")
    seldom = amity.execute(run, own(), model=network, out=tmp_path / "run", resume=True)
    assert equal(weights_of(often), weights_of(seldom))
    for line, reference in zip(seldom.lines, often.lines, strict=True):
        due = line["round"] in (2, 4, 5)
        for key in ("mean", "worst", "accuracy", "loss"):
            assert line[key] == (reference[key] if due else None)
        assert line["bytes_eval"] == (reference["bytes_eval"] if due else 0)
    best = max((seldom.lines[at] for at in (1, 3, 4)), key=lambda line: line["mean"])
    assert (seldom.bmta, seldom.summary["best_round"]) == (best["mean"], best["round"])
    assert seldom.summary["last"] == often.summary["last"]
    (curve, _) = figures.curves([amity.record.read(tmp_path / "run")])["data"]
    assert curve["x"] == [2, 4, 5] and None not in curve["y"]


def test_a_finished_run_gives_its_models_again(tmp_path: Path) -> None:
    first = amity.execute(quick("fedavg-ft"), own(), model=network, out=tmp_path / "run")
    again = amity.execute(quick("fedavg-ft"), own(), model=network, out=tmp_path / "run", resume=True)
    assert again.summary == first.summary
    assert equal(weights_of(again), weights_of(first))


def test_a_directory_that_holds_a_run_is_refused_or_replaced(tmp_path: Path) -> None:
    amity.execute(quick("separate"), own(), model=linear, out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="already holds a run"):
        amity.execute(quick("fedavg"), own(), model=linear, out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["method"] == "separate"
    amity.execute(quick("fedavg"), own(), model=linear, out=tmp_path / "run", force=True)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["method"] == "fedavg"


def test_a_finished_run_without_its_checkpoint_stays_as_it_is(tmp_path: Path) -> None:
    """Checkpoints are large: to remove those of finished runs must cost nothing but going on."""
    first = amity.execute(quick("fedamp"), own(), model=network, out=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}

    def stop(*_: object) -> None:
        raise AssertionError("nothing is left to be computed")

    again = amity.execute(quick("fedamp"), own(), model=network, out=tmp_path / "run", resume=True, notify=stop)
    assert again.summary == first.summary and equal(weights_of(again), weights_of(first))
    with pytest.raises(amity.InputError, match="no checkpoint to continue from"):
        amity.execute(quick("fedamp", rounds=9), own(), model=network, out=tmp_path / "run", resume=True)
    assert before == {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}


def test_a_run_that_was_killed_while_it_was_created_starts_again(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "manifest.json").write_text("{}")
    (place / "facts.json").write_text('{"silos": ')
    ready = prepare(quick("separate"), own(), model=linear)
    assert record.holds_run(place)
    carry_out(ready, out=place, resume=record.holds_run(place))
    assert record.read(place).summary is not None


def test_no_test_is_made_between_runs_on_different_test_data(tmp_path: Path) -> None:
    def recorded(name: str, silos: Silos, **options: Any) -> record.Record:
        amity.execute(quick("fedavg", rounds=1, **options), silos, model=linear, out=tmp_path / name)
        return record.read(tmp_path / name)

    first, other = recorded("first", own()), recorded("other", own(east=arrays(9)))
    fewer = recorded("fewer", own(), per_silo=10)
    assert p_values([first, other]) is None
    assert first.facts["sha256"] != fewer.facts["sha256"] and p_values([first, fewer]) is not None
    other.facts["test_sha256"] = None  # of an earlier version: nothing is known
    assert p_values([first, other]) is not None


def test_a_run_is_not_resumed_with_other_silos(tmp_path: Path) -> None:
    amity.execute(quick("separate"), own(), model=linear, out=tmp_path / "run")
    renamed = amity.federation({f"{name}-2": arrays for name, arrays in OWN.items()})
    with pytest.raises(amity.InputError, match="north"):
        amity.execute(quick("separate"), renamed, model=linear, out=tmp_path / "run", resume=True)


def test_a_run_is_not_resumed_with_other_data(tmp_path: Path) -> None:
    amity.execute(quick("separate"), own(), model=linear, out=tmp_path / "run")
    with pytest.raises(amity.InputError, match="data"):
        amity.execute(quick("separate"), own(east=arrays(9)), model=linear, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: amity.execute(quick(), {}), "amity.federation gives, got dict"),
        (lambda: amity.execute(quick(), {"a": arrays(5)}), "amity.federation gives, got dict"),
        (lambda: amity.execute(quick(), [arrays(5)]), "amity.federation gives, got list"),
        (lambda: amity.execute("fedavg", own()), "described by amity.Run, got 'fedavg'"),
        (lambda: amity.execute("fedavg"), "described by amity.Run, got 'fedavg'"),
        (lambda: amity.execute(quick(), own(), model="mlp"), "builds your nn.Module, or a module, got 'mlp'"),
        (lambda: amity.execute(quick(), own(), model=lambda: None), "must return an nn.Module, got NoneType"),
        (lambda: amity.execute(quick(), own(), method="fedamp"), "amity.Method, got 'fedamp', without paired"),
        (lambda: amity.execute(quick(), own(), method=Mock(spec=FedAvg())), "amity.Method, got .*, no dataclass"),
        (lambda: amity.execute(quick(), own(), method=FedAvg), "amity.Method, got FedAvg, the class itself"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(amity.InputError, match=words):
        call()


def test_epochs_of_any_length_are_refused_in_one_line() -> None:
    with pytest.raises(amity.InputError, match="local_epochs_range needs 1 <= LO <= HI"):
        quick(local_epochs_range="1:" + "9" * 5000)
    assert quick(local_epochs_range="01: 0009").who.local_epochs_range == (1, 9)


@pytest.mark.parametrize("settings", [[1], {1: 1}, "sigma=1"])
def test_settings_are_options_by_name(settings):
    with pytest.raises(amity.InputError, match="options by name"):
        amity.Run("fedamp", settings=settings)


def test_an_interruption_before_anything_has_begun_keeps_what_was_to_be_replaced(tmp_path, monkeypatch):
    out = tmp_path / "run"
    amity.execute(quick("fedavg"), own(), model=linear, out=out)
    before = sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*"))

    def stopped(*what, **options):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("amity.run.simulate", stopped)
    with pytest.raises(KeyboardInterrupt):
        amity.execute(quick("fedavg"), own(), model=linear, out=out, force=True)
    assert sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*")) == before
