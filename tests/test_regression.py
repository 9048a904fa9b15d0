"""Labels that are quantities: what is learnt, in which units it is measured, and that silos stay apart."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from four_silos import known
from hypothesis import given
from hypothesis import strategies as st
from listening import recorded
from sklearn import metrics as reference
from small import FEATURES, NAMES, SIZES, run, scores_of
from torch import nn

import amity
from amity.contract import InputError, Scale, Silo, Split
from amity.data import Silos
from amity.learn.metrics import of_quantities
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.methods import METHODS


def linear() -> nn.Module:
    return nn.Linear(FEATURES, 1)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 1))


def silo(name: str, size: int, *, unit: float = 1.0, zero: float = 0.0, noise: float = 0.0, tests: int = 20) -> Silo:
    """A linear rule that all share; its unit and level are the silo's own."""
    rng = stream(0, f"regression/{name}")
    x = torch.randn(size + tests, FEATURES, generator=rng)
    y = x @ torch.tensor([1.0, -2.0, 0.5]) + noise * torch.randn(size + tests, generator=rng)
    y = zero + unit * y
    return Silo(name, Split(x[:size], y[:size]), Split(x[size:], y[size:]))


def silos(unit: float = 1.0, zero: float = 0.0, noise: float = 0.1) -> Silos:
    made = [silo(name, size, unit=unit, zero=zero, noise=noise) for name, size in zip(NAMES, SIZES, strict=True)]
    return amity.own_silos(made, classes=0)


def quick(method: str, **options: object) -> amity.Run:
    return amity.Run(method, **{"rounds": 3, "epochs": 2, "workers": 1, "engine": "loop", **options})  # type: ignore[arg-type]


sizes = st.lists(st.integers(2, 30), min_size=1, max_size=4)


@given(sizes, st.integers(0, 2**32 - 1))
def test_metrics_are_those_of_scikit_learn(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = [rng.normal(size=size) * 10 ** rng.uniform(-3, 3) for size in sizes]
    guess = [y + rng.normal(size=len(y)) for y in truth]
    errors = torch.from_numpy(np.concatenate(guess) - np.concatenate(truth))
    for mine, y, out in zip(
        of_quantities(errors, torch.from_numpy(np.concatenate(truth)), sizes), truth, guess, strict=True
    ):
        assert mine["r2"] == pytest.approx(100 * reference.r2_score(y, out), rel=1e-6, abs=1e-6)
        assert mine["rmse"] == pytest.approx(reference.root_mean_squared_error(y, out), rel=1e-6)
        assert mine["mae"] == pytest.approx(reference.mean_absolute_error(y, out), rel=1e-6)


def test_r2_of_equal_labels_is_undefined() -> None:
    equal, none = of_quantities(torch.tensor([1.0, -1.0]), torch.tensor([5.0, 5.0]), [2, 0])
    assert math.isnan(equal["r2"]) and (equal["rmse"], equal["mae"]) == (1.0, 1.0)
    assert all(math.isnan(value) for value in none.values())
    labels = torch.full((7,), 0.1 * 3, dtype=torch.float64)  # their mean is not one of them
    assert labels.mean() != labels[0]
    assert math.isnan(of_quantities(torch.ones(7), labels, [7])[0]["r2"])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_errors_that_are_not_finite_are_failures(bad: float) -> None:
    """Not undefined: no mean may leave them out."""
    failed, well = of_quantities(torch.tensor([0.0, bad, 0.0, 0.0]), torch.tensor([1.0, 2.0, 1.0, 2.0]), [2, 2])
    assert failed == {"r2": -math.inf, "rmse": math.inf, "mae": math.inf}
    assert well == {"r2": 100.0, "rmse": 0.0, "mae": 0.0}


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_silo_whose_model_diverges_is_not_left_out(engine: str) -> None:
    """One silo's inputs are so large that its model's outputs overflow; the others learn."""
    made = [silo(name, 20) for name in ("a", "b", "c")]
    train, test = (Split(part.x * 1e30, part.y) for part in (made[1].train, made[1].test))
    made[1] = Silo("b", train, test)
    run = quick("separate", engine=engine, lr=0.01, optimizer="sgd", rounds=2)
    result = amity.run(run, amity.own_silos(made, classes=0))
    for line in result.lines:
        assert line["mean"] is None and line["worst"] is None and line["metrics"] == {"rmse": None, "mae": None}
        assert line["r2"] is not None
        assert [value is None for value in line["r2"]] == [False, True, False]
        assert sum(warning.startswith("silo b's model is not finite: ") for warning in line["warnings"]) == 1
    assert [result.summary[key] for key in ("delivered", "last", "worst")] == [None] * 3
    assert math.isnan(result.best) and math.isnan(result.scores["b"]) and math.isfinite(result.scores["a"])


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_separate_training_finds_a_linear_rule(engine: str) -> None:
    """Whatever the silo's unit and level; the model that it gets back speaks in them."""
    made = [silo("a", 60), silo("b", 80, unit=1e4, zero=-5e4), silo("c", 50, unit=1e-3, zero=7.0)]
    federation = amity.own_silos(made, classes=0)
    run = amity.Run("separate", model="mlr", rounds=20, optimizer="sgd", lr=0.1, engine=engine, workers=1)  # type: ignore[arg-type]
    result = amity.run(run, federation)
    assert all(score > 99 for score in result.scores.values()) and result.best > 99
    for one in made:
        said = result.model(one.name)(one.test.x)[:, 0].detach()
        assert reference.r2_score(one.test.y, said) > 0.99
    with pytest.raises(InputError, match="quantities have no accuracy"):
        _ = result.accuracy
    with pytest.raises(InputError, match="quantities have no accuracy"):
        _ = result.bmta


def test_metrics_are_in_the_units_of_the_labels() -> None:
    """Labels in other units and on another level: the same models, the same R2, errors in the new units."""
    one, other = (amity.run(quick("fedavg"), made) for made in (silos(), silos(unit=1000.0, zero=-3.0)))
    for a, b in zip(one.lines, other.lines, strict=True):
        assert a["r2"] == pytest.approx(b["r2"], rel=1e-3)
        assert a["per_silo"] and b["per_silo"] and a["metrics"] and b["metrics"]
        rmse, rmse_there = known(a["per_silo"]["rmse"]), known(b["per_silo"]["rmse"])
        assert [1000 * value for value in rmse] == pytest.approx(rmse_there, rel=1e-3)
        (mae, mae_there) = known([a["metrics"]["mae"], b["metrics"]["mae"]])
        assert 1000 * mae == pytest.approx(mae_there, rel=1e-3)
    x = torch.randn(4, FEATURES)
    assert torch.allclose(1000 * one.model("ash")(x) - 3, other.model("ash")(x), rtol=1e-2, atol=1.0)


def test_a_silo_standardises_by_its_own_training_labels_alone() -> None:
    made = silos(noise=0.0)
    seen = made.standardised()
    for before, after in zip(made.silos, seen.silos, strict=True):
        assert after.train.y.mean().abs() < 1e-6 and after.train.y.std(correction=0) == pytest.approx(1, abs=1e-6)
        zero, unit = after.scale
        assert torch.allclose(after.test.y.double() * unit + zero, before.test.y, atol=1e-5)
    first = made.silos[0]
    spoilt = first._replace(test=Split(first.test.x, first.test.y + 100))
    others = [silo(name, 9, unit=50.0) for name in NAMES[1:]]
    again = amity.own_silos([spoilt, *others], classes=0).standardised().silos[0]
    assert torch.equal(again.train.y, seen.silos[0].train.y) and again.scale == seen.silos[0].scale


def test_classes_and_constant_labels_stay() -> None:
    classes = amity.own_silos({"a": (np.zeros((4, 2), "float32"), [0, 1, 0, 1])})
    assert classes.standardised() is classes and classes.silos[0].scale == Scale()
    x, y = torch.zeros(4, 2), torch.full((4,), 5.0)
    (flat,) = amity.own_silos([Silo("a", Split(x, y), Split(x, y + 1))], classes=0).standardised().silos
    assert flat.scale == Scale(5.0, 1.0) and flat.train.y.tolist() == [0.0] * 4 and flat.test.y.tolist() == [1.0] * 4


@pytest.mark.parametrize(("unit", "zero"), [(1.0, 8.0), (2.0, 0.0)])
def test_the_hash_tells_labels_in_another_unit_apart(unit: float, zero: float) -> None:
    """Standardised they are equal to the last bit, and a run on one must not be continued on the other."""
    x, y = torch.zeros(4, 2), torch.tensor([1.0, 2.0, 4.0, 5.0], dtype=torch.float64)
    one, other = (
        amity.own_silos({"a": (x, labels, x, labels)}, classes=0).standardised() for labels in (y, unit * y + zero)
    )
    assert torch.equal(one.silos[0].train.y, other.silos[0].train.y)
    assert one.sha256 != other.sha256


def test_labels_are_standardised_before_they_are_rounded() -> None:
    x, y = torch.zeros(4, 2), 1.7e9 + torch.tensor([0.0, 0.0, 2.0, 2.0], dtype=torch.float64)
    (one,) = amity.own_silos({"a": (x, y, x, y)}, classes=0).standardised().silos
    assert one.scale == Scale(1.7e9 + 1, 1.0) and one.train.y.tolist() == [-1.0, -1.0, 1.0, 1.0]
    assert one.train.y.dtype == torch.float32
    tenths = torch.full((3,), 0.1, dtype=torch.float64)  # their mean is not 0.1
    (flat,) = amity.own_silos({"a": (x[:3], tenths, x[:3], tenths)}, classes=0).standardised().silos
    assert flat.scale == Scale(0.1, 1.0)


@pytest.mark.parametrize(("train", "test"), [([1e300, 0.0, 0.0], [1.0]), ([0.0, 1.0, 2.0], [1e200])])
def test_labels_must_stay_finite(train: list[float], test: list[float]) -> None:
    x = np.zeros((3, 2), "float32")
    made = amity.own_silos({"far": (x, train, x[:1], test)}, classes=0)
    with pytest.raises(InputError, match="silo 'far': quantities must be finite less their mean"):
        made.standardised()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_quantities_with_either_engine(method: str) -> None:
    on = Task(network, (FEATURES,), 0, dtype=torch.float64)
    share = getattr(amity.methods.build(method), "validation", 0.0)
    at = silos().with_validation(share, 0).standardised()
    at = at.pooled() if method == "pooled" else at
    doubled = [
        one._replace(
            train=Split(one.train.x.double(), one.train.y.double()),
            test=Split(one.test.x.double(), one.test.y.double()),
            val=None if one.val is None else Split(one.val.x.double(), one.val.y.double()),
        )
        for one in at.silos
    ]
    loop, stack = (run(method, on=on, at=doubled, rounds=2, engine=engine) for engine in ("loop", "stacked"))
    for report in loop:
        assert all(math.isfinite(score.main) and score.main <= 100 for score in scores_of(report))
        assert all((score.val is not None) == bool(share) for score in scores_of(report))
    for one, other in zip(loop, stack, strict=True):
        for errors, others in zip(one.each, other.each, strict=True):
            assert torch.allclose(errors, others, atol=1e-8)
        for mine, theirs in zip(scores_of(one), scores_of(other), strict=True):
            assert mine.examples == theirs.examples
            assert mine.metrics == pytest.approx(theirs.metrics) and mine.loss == pytest.approx(theirs.loss)


def test_a_model_for_classes_is_refused() -> None:
    with pytest.raises(InputError, match=r"one value, as labels are quantities, \[n, 1\].*1 output$"):
        amity.run(quick("fedavg"), silos(), model=lambda: nn.Linear(FEATURES, 3))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_labels_must_be_finite(bad: float) -> None:
    x, y = np.zeros((3, 2), "float32"), np.array([0.5, bad, 1.0])
    with pytest.raises(InputError, match="labels must be finite, got NaN or infinity in row 1"):
        amity.own_silos({"a": (x, y, x, y)}, classes=0)


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    def stop(line: dict[str, object]) -> None:
        if line["round"] == 2:
            raise KeyboardInterrupt

    whole = amity.run(quick("fedamp", val_fraction=0.2), silos())
    with pytest.raises(KeyboardInterrupt):
        amity.run(quick("fedamp", val_fraction=0.2), silos(), out=tmp_path / "run", listen=recorded(stop))
    again = amity.run(quick("fedamp", val_fraction=0.2), silos(), out=tmp_path / "run", resume=True)
    assert {**again.summary, "seconds": 0} == {**whole.summary, "seconds": 0}
