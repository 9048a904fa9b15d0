"""Runs by every metric: the numbers are scikit-learn's, and whatever is chosen is chosen by that metric."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from four_silos import OWN, Arrays, arrays, known, own, quick
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

import amity
from amity.contract import InputError
from amity.data import Silos
from amity.metric import METRICS, MetricWord
from amity.predicting.facts import facts_of
from amity.prepare import prepare
from amity.record import scores_of
from amity.report.table import headings, p_values, rows
from amity.site.results import train_alone, write_verdict
from amity.site.verdict import Verdict


def outputs(result: amity.Result, name: str, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = result.model(name)(torch.from_numpy(x)).double().numpy()
    return found


def softmax(scores: np.ndarray) -> np.ndarray:
    power = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(power / power.sum(1, keepdims=True))


def by_scikit_learn(word: str, y: np.ndarray, scores: np.ndarray) -> float:
    guess = scores.argmax(1)
    if word == "balanced":
        return float(reference.balanced_accuracy_score(y, guess))
    if word == "f1":
        return float(reference.f1_score(y, guess, average="macro"))
    return float(reference.roc_auc_score(y, softmax(scores), multi_class="ovr", average="macro"))


@pytest.mark.parametrize("word", ["balanced", "f1", "auroc"])
def test_scores_are_those_of_scikit_learn(word: str) -> None:
    silos = own(east=arrays(9, size=60, tests=50))
    result = amity.run(quick("fedamp", metric=word, model="mlr", val_fraction=0.25), silos)
    key = METRICS[result.summary["score"]].key
    assert key == {"balanced": "balanced_accuracy", "f1": "macro_f1"}.get(word, word)
    for name, (_, _, x, y) in {**OWN, "east": arrays(9, size=60, tests=50)}.items():
        said = outputs(result, name, x)
        assert result.scores[name] == pytest.approx(100 * by_scikit_learn(word, y, said))
        assert result.accuracy[name] == pytest.approx(100 * (said.argmax(1) == y).mean(), rel=1e-5)
    assert result.best == pytest.approx(np.mean(list(result.scores.values())))
    assert result.summary["worst"] == pytest.approx(min(result.scores.values()))
    vals = [line["val"] for line in result.lines]
    assert result.round == 1 + vals.index(max(known(vals))) and result.summary["chosen_by"] == "validation"
    with pytest.raises(InputError, match="the BMTA is of accuracies, this run has"):
        _ = result.bmta
    assert METRICS[key].title in str(result)


@pytest.mark.parametrize("engine", ["loop", "stacked", "memory"])
def test_validation_is_by_the_same_metric(engine: str) -> None:
    """Balanced accuracy of the silo's own validation part, on every engine."""
    run = quick("separate", metric="balanced", model="mlr", val_fraction=0.3, rounds=1, engine=engine)
    result = amity.run(run, own())
    dealt = own().with_validation(0.3, run.seed)
    means = []
    for silo in dealt.silos:
        assert silo.val is not None
        with torch.no_grad():
            guess = result.model(silo.name)(silo.val.x).argmax(1)
        means.append(100 * reference.balanced_accuracy_score(silo.val.y, guess))
    assert result.lines[0]["val"] == pytest.approx(np.mean(means))


def test_auto_is_accuracy_to_the_last_bit() -> None:
    one, other = (amity.run(quick(metric=word, val_fraction=0.2), own()) for word in ("auto", "accuracy"))
    for a, b in zip(one.lines, other.lines, strict=True):
        assert {**a, "seconds": None} == {**b, "seconds": None}
    assert one.summary["score"] == "accuracy" and "accuracy" not in (one.lines[0].get("metrics") or {})


def test_the_metric_changes_no_model() -> None:
    """But by the round that is delivered: without validation data it is the last."""
    one, other = (amity.run(quick(metric=word), own()) for word in ("auto", "auroc"))
    for name in OWN:
        for key, value in one.model(name).state_dict().items():
            assert torch.equal(value, other.model(name).state_dict()[key])
    assert one.accuracy == pytest.approx(other.accuracy, rel=1e-5)
    for a, b in zip(one.lines, other.lines, strict=True):
        assert scores_of(a, "auroc") == pytest.approx(scores_of(b), rel=1e-5)


# Quantities


def made(name: int, unit: float, size: int = 30) -> Arrays:
    rng = np.random.default_rng(name)
    x = rng.normal(size=(size + 15, 4)).astype("float32")
    y = unit * (x @ rng.normal(size=4) + 0.3 * rng.normal(size=size + 15))
    return x[:size], y[:size], x[size:], y[size:]


UNITS = {"north": 1.0, "south": 100.0, "east": 5.0}


def quantities() -> Silos:
    return amity.own_silos({name: made(i, unit) for i, (name, unit) in enumerate(UNITS.items())}, classes=0)


@pytest.mark.parametrize("engine", ["loop", "stacked", "memory"])
def test_a_lower_error_is_better(engine: str) -> None:
    run = quick("fedamp", metric="rmse", model="mlr", val_fraction=0.2, rounds=5, engine=engine, lr=0.3)
    result = amity.run(run, quantities())
    summary, lines = result.summary, result.lines
    assert summary["score"] == "rmse" and result.metric.better == "lower"
    for i, (name, unit) in enumerate(UNITS.items()):
        _, _, x, y = made(i, unit)
        error = reference.root_mean_squared_error(y, outputs(result, name, x)[:, 0])
        assert result.scores[name] == pytest.approx(error, rel=1e-4)
    assert summary["worst"] == pytest.approx(max(result.scores.values()))
    vals, means = ([line[key] for line in lines] for key in ("val", "mean"))
    assert result.round == 1 + vals.index(min(known(vals)))
    assert summary["best_on_test"] == min(known(means)) and summary["bmta"] is None
    cloud = summary["cloud"]
    assert cloud is not None and cloud["worst"] == max(known(cloud["per_client"]))
    worst = max(result.scores, key=lambda name: result.scores[name])
    assert f"worst {worst} " in str(result) and "mean test RMSE" in str(result) and "%" not in str(result)


def test_validation_errors_are_in_the_labels_own_unit() -> None:
    """So that silos weigh as they do in the mean over tests."""
    run = quick("separate", metric="rmse", model="mlr", val_fraction=0.3, rounds=1)
    result = amity.run(run, quantities())
    errors = []
    for silo in quantities().with_validation(0.3, run.seed).silos:
        assert silo.val is not None
        said = result.model(silo.name)(silo.val.x)[:, 0].detach().double()
        errors.append(math.sqrt(float((said - silo.val.y).square().mean())))
    assert result.lines[0]["val"] == pytest.approx(np.mean(errors), rel=1e-5)


def test_a_silo_that_trains_alone_keeps_its_round_with_the_least_error(tmp_path: Path) -> None:
    """As a federation of that silo alone does."""
    run = quick("separate", metric="rmse", model="mlr", val_fraction=0.4, rounds=8, lr=0.8, optimizer="adam")
    silos = amity.own_silos({"north": made(0, 100.0)}, classes=0)
    result = amity.run(run, silos)
    vals = known(line["val"] for line in result.lines)
    assert vals[result.round - 1] == min(vals) < max(vals)
    ready = prepare(run, silos)
    alone = train_alone(ready.plan, 0, ready.silos.silos[0], run.rounds, tmp_path)
    assert alone.round == result.round


def test_tables_put_the_lowest_error_first(tmp_path: Path) -> None:
    """The star, the worst silo and the tests are against the method with the least error."""
    good, bad = (quick(name, metric="rmse", model="mlr", rounds=2, lr=0.1) for name in ("separate", "fedavg"))
    both = amity.compare([replace(bad, lr=1e-6), good], quantities(), out=tmp_path)
    assert [row.best for row in rows(both.records)] == [False, True]
    least = min(result.best for result in both.runs)
    assert both.runs[1].best == least < both.runs[0].best
    found = p_values(both.records)
    assert found is not None and found[1] is None and found[0] is not None
    told = headings(both.records)
    assert (told["delivered"], told["worst"], told["best_on_test"]) == (
        "Delivered RMSE",
        "Worst RMSE",
        "Best on test RMSE",
    )
    text = str(both)
    assert "best mean test RMSE of the models" in text and "BMTA" not in text
    for row in rows(both.records):
        assert row.worst is not None and row.delivered is not None and row.worst.mean >= row.delivered.mean


def test_seeds_are_told_in_the_metrics_unit() -> None:
    repeats = amity.run(quick("separate", metric="rmse", model="mlr", rounds=1), quantities(), seeds=[0, 1])
    assert isinstance(repeats, amity.Repeats) and repeats.summary["score"] == "rmse"
    assert "mean test RMSE of the delivered models" in str(repeats) and "%" not in str(repeats)


# What does not fit


def test_runs_by_different_metrics_are_not_compared() -> None:
    one, other = (amity.run(quick("separate", metric=word, rounds=1), own()) for word in ("f1", "auroc"))
    with pytest.raises(InputError, match="scored by macro F1 and AUROC have no score in common: report them apart"):
        rows([one.record, other.record])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "r2"}, "metric r2 is for quantities, the labels here are classes: try one of accuracy"),
        ({"metric": "rmse"}, "metric rmse is for quantities"),
    ],
)
def test_what_does_not_fit_classes_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        amity.run(quick(**options), own(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "auroc"}, "metric auroc is for classes, the labels here are quantities: try one of r2, rmse, mae"),
        ({"class_weights": "balanced"}, "class_weights needs classes, the labels here are quantities"),
    ],
)
def test_what_does_not_fit_quantities_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        amity.run(quick(model="mlr", **options), quantities(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_by_its_metric_under_either_name(tmp_path: Path) -> None:
    amity.run(quick("separate", metric="balanced", rounds=1), own(), out=tmp_path / "run")
    again = quick("separate", metric="balanced_accuracy", rounds=2)
    assert len(amity.run(again, own(), out=tmp_path / "run", resume=True).lines) == 2
    with pytest.raises(InputError, match="has metric = 'balanced_accuracy', got 'accuracy'"):
        amity.run(replace(again, metric="auto"), own(), out=tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="has class_weights = 'none', got 'balanced'"):
        amity.run(replace(again, class_weights="balanced"), own(), out=tmp_path / "run", resume=True)


def test_one_class_among_the_tests_has_no_area_and_is_left_out() -> None:
    x, y, _, _ = OWN["north"]
    silos = own(north=(x, y, x[y == 0], y[y == 0]))
    result = amity.run(quick("separate", metric="auroc", rounds=2), silos)
    assert math.isnan(result.scores["north"])
    others = [value for name, value in result.scores.items() if name != "north"]
    assert result.best == pytest.approx(np.mean(others)) and result.summary["worst"] == pytest.approx(min(others))
    first, second = (line["warnings"] for line in result.lines)
    assert any("AUROC is undefined at 1 of 4 silos" in words and words.endswith(": north") for words in first)
    assert not any("undefined" in words for words in second)


# Class weights


@settings(max_examples=5)
@given(seed=st.integers(0, 100))
def test_balanced_weights_find_a_rare_class(seed: int) -> None:
    """Two overlapping clouds, one 19 times as often: without weights a line between them calls all of them common.

    With balanced weights the line stands in the middle, where both classes are right equally often.
    """

    def cloud(rng: np.random.Generator, common: int, rare: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat([0, 1], [common, rare])
        x = rng.normal(size=(common + rare, 1)) + y[:, None]
        return np.hstack([x, np.zeros_like(x)]).astype("float32"), y

    rng = np.random.default_rng(seed)
    silos = amity.own_silos({name: (*cloud(rng, 190, 10), *cloud(rng, 300, 300)) for name in ("a", "b")})
    common = {
        "model": "mlr",
        "rounds": 5,
        "epochs": 20,
        "batch": 200,
        "metric": "balanced",
        "optimizer": "sgd",
        "lr": 0.5,
    }
    plain, weighted = (
        amity.run(quick("fedavg", class_weights=word, **common), silos).best for word in ("none", "balanced")
    )
    assert plain < 56  # nearly all are called common
    assert weighted == pytest.approx(69.1, abs=4)  # the normal distribution's value at 1/2


# Verdicts at a silo of its own


@pytest.mark.parametrize("word", ["balanced", "auroc", "f1"])
def test_a_silo_judges_by_the_runs_metric(word: MetricWord, tmp_path: Path) -> None:
    run = quick("separate", metric=word, model="mlr", rounds=1)
    found = judged_at_a_silo(run, own(), tmp_path)
    assert found["score"] == run_score(word) and METRICS[run_score(word)].title in (tmp_path / "report.md").read_text()
    assert found["difference"] == pytest.approx((found["personal"] or 0) - (found["alone"] or 0), abs=1e-3)


def test_a_silo_judges_errors_by_percent(tmp_path: Path) -> None:
    found = judged_at_a_silo(quick("separate", metric="rmse", model="mlr", rounds=1), quantities(), tmp_path)
    assert found["personal"] and found["alone"] and found["score"] == "rmse"
    assert found["difference"] == pytest.approx(100 * (1 - found["personal"] / found["alone"]), abs=1e-3)
    page = (tmp_path / "report.md").read_text()
    assert f"{found['difference']:+.2f} % (" in page and f"{found['alone']:.4g} |" in page


def test_a_silo_with_one_class_says_that_nothing_can_be_compared(tmp_path: Path) -> None:
    x, y, _, _ = OWN["north"]
    silos = own(north=(x, y, x[y == 0], y[y == 0]))
    found = judged_at_a_silo(quick("separate", metric="auroc", rounds=1), silos, tmp_path)
    assert found["judgement"] == "cannot be compared" and "of one class, for which AUROC is undefined" in found["words"]


def run_score(word: str) -> str:
    return {"balanced": "balanced_accuracy", "f1": "macro_f1"}.get(word, word)


def judged_at_a_silo(run: amity.Run, silos: Silos, folder: Path) -> Verdict:
    """Compare an untrained model with one that was trained, at the first silo."""
    ready = prepare(run, silos)
    task, silo = ready.plan.task, ready.silos.silos[0]
    trained = train_alone(ready.plan, 0, silo, run.rounds, folder / "alone")
    first = train_alone(ready.plan, 0, silo, 0, folder / "first").model
    facts = facts_of(ready.silos, silo, task, method="fedavg", model="mlr", round=1)
    return write_verdict(folder, {**facts, "run": "r", "contract": "c"}, task, silo, first, trained, 1)
