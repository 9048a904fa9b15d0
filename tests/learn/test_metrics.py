"""Metrics against scikit-learn, an implementation that shares nothing with ours."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from amity.learn.metrics import of_classes

NAN = math.nan


@st.composite
def silos(draw: Any) -> tuple[list[np.ndarray], list[np.ndarray], int]:
    """Outputs and labels of a few silos; equal examples among them, and classes that do not occur."""
    classes = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    alike = draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    outputs = [rng.normal(size=(size, classes)) * 2 for size in sizes]
    if alike:
        outputs = [out[rng.integers(0, min(len(out), 5), len(out))] for out in outputs]
    among = [rng.choice(classes, size=draw(st.integers(1, classes)), replace=False) for _ in sizes]
    return outputs, [rng.choice(those, size=size) for those, size in zip(among, sizes, strict=True)], classes


def softmax(outputs: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.from_numpy(outputs), 1).numpy()


def auroc(outputs: np.ndarray, y: np.ndarray, classes: int) -> float:
    """One against the rest, over classes with examples of both kinds."""
    mixed = [c for c in range(classes) if 0 < (y == c).sum() < len(y)]
    shares = softmax(outputs)
    return float(np.mean([reference.roc_auc_score(y == c, shares[:, c]) for c in mixed])) if mixed else NAN


@given(silos())
def test_metrics_are_those_of_scikit_learn(found: tuple[list[np.ndarray], list[np.ndarray], int]) -> None:
    outputs, labels, classes = found
    together = torch.from_numpy(np.concatenate(outputs)), torch.from_numpy(np.concatenate(labels))
    measured = of_classes(*together, [len(y) for y in labels])
    for mine, out, y in zip(measured, outputs, labels, strict=True):
        guess = out.argmax(1)
        recalls = [(guess[y == c] == c).mean() for c in np.unique(y)]  # balanced_accuracy_score warns of odd guesses
        assert mine["balanced_accuracy"] == pytest.approx(100 * np.mean(recalls))
        f1 = reference.f1_score(y, guess, average="macro", zero_division=0.0)
        assert mine["macro_f1"] == pytest.approx(100 * f1)
        assert mine["auroc"] == pytest.approx(100 * auroc(out, y, classes), abs=1e-6, nan_ok=True)
        if np.isin(guess, y).all() and len(np.unique(y)) > 1:
            assert mine["balanced_accuracy"] == pytest.approx(100 * reference.balanced_accuracy_score(y, guess))


@given(st.integers(0, 10**6))
def test_two_classes_have_the_usual_area(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.array([0, 1, *rng.integers(0, 2, 20)])
    outputs = rng.normal(size=(22, 2)).astype("float32")
    (mine,) = of_classes(torch.from_numpy(outputs), torch.from_numpy(y), [22])
    chance = softmax(outputs.astype("float64"))[:, 1]
    assert mine["auroc"] == pytest.approx(100 * reference.roc_auc_score(y, chance))


def test_by_hand() -> None:
    """Labels 0 0 0 1, predictions 0 0 1 1: recalls 2/3 and 1; F1 4/5 and 2/3; three pairs, of which one is a tie."""
    outputs = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    (found,) = of_classes(outputs, torch.tensor([0, 0, 0, 1]), [4])
    assert found == pytest.approx({"balanced_accuracy": 500 / 6, "macro_f1": 220 / 3, "auroc": 250 / 3})


def test_what_is_undefined_is_not_a_number() -> None:
    outputs = torch.eye(3)[[0, 1, 2, 0]]
    one_class, empty, lost = of_classes(outputs, torch.tensor([0, 0, 2, 0]), [2, 0, 2])
    assert one_class["balanced_accuracy"] == 50.0 and math.isnan(one_class["auroc"])
    assert all(math.isnan(value) for value in empty.values())
    assert lost["auroc"] == 100.0


@pytest.mark.parametrize("bad", [NAN, math.inf])
def test_outputs_that_are_not_finite_are_wrong_about_every_class(bad: float) -> None:
    outputs = torch.eye(3)[[0, 1, 2, 0]].double()
    y = torch.tensor([0, 1, 2, 0])
    (whole,) = of_classes(outputs, y, [4])
    assert whole == {"balanced_accuracy": 100.0, "macro_f1": 100.0, "auroc": 100.0}
    outputs[0] = bad  # the largest of these is the first, which is right by accident
    (hurt,) = of_classes(outputs, y, [4])
    # Class 0 has one hit of two, F1 2 / (2 + 1); one of its two examples ranks below both others, which rank below it.
    assert hurt["balanced_accuracy"] == pytest.approx(100 * (1 / 2 + 1 + 1) / 3)
    assert hurt["macro_f1"] == pytest.approx(100 * (2 / 3 + 1 + 1) / 3)
    assert hurt["auroc"] == pytest.approx(100 * (1 / 2 + 2 / 3 + 2 / 3) / 3)
    for classes in (2, 3):  # binary scores are made in another way
        (lost,) = of_classes(torch.full((4, classes), bad), torch.tensor([0, 1, 1, 0]), [4])
        assert lost == {"balanced_accuracy": 0.0, "macro_f1": 0.0, "auroc": 0.0}


def test_a_class_may_be_ruled_out() -> None:
    """Minus infinity is a probability of 0, which is below all others."""
    outputs = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0], [1.0, 0.0]])
    (found,) = of_classes(outputs, torch.tensor([0, 1, 0]), [3])
    assert found == {"balanced_accuracy": 100.0, "macro_f1": 100.0, "auroc": 100.0}


def test_sure_models_are_still_ranked() -> None:
    """Probabilities of 1 - 1e-40 and 1 - 1e-50 are equal as numbers; the outputs tell them apart."""
    outputs = torch.tensor([[0.0, 100.0], [0.0, 120.0], [0.0, 90.0]])
    (found,) = of_classes(outputs, torch.tensor([1, 1, 0]), [3])
    assert found["auroc"] == 100.0


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(60, 5, generator=rng), torch.randint(0, 5, (60,), generator=rng)
    whole = of_classes(outputs, y, [10, 30, 20])
    monkeypatch.setattr("amity.learn.metrics._BLOCK_NUMBERS", 64)
    assert of_classes(outputs, y, [10, 30, 20]) == whole


def test_a_round_of_a_hundred_silos_is_measured_at_once() -> None:
    rng = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(10_000, 62, generator=rng), torch.randint(0, 62, (10_000,), generator=rng)
    took = []
    for _ in range(3):
        began = time.process_time()
        of_classes(outputs, y, [100] * 100)
        took.append(time.process_time() - began)
    assert min(took) < 0.5  # about 0.03 on a quiet machine
