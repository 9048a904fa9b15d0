"""Differences by metrics that are no plain share: scikit-learn's numbers, known variances, rare classes, words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from amity.worth.contents import Score
from amity.worth.paired import Z
from amity.worth.shares import ADDED, Answers, compared

CLASSES: tuple[Score, ...] = ("balanced_accuracy", "macro_f1", "auroc")
ERRORS: tuple[Score, ...] = ("rmse", "mae")


def two_models(seed: int, n: int, prior: list[float], better: float = 0.0) -> tuple[Answers, Answers]:
    """Return the answers of two models that know about as much of each class; the first may know more."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(prior), size=n, p=prior)
    known = np.eye(len(prior))[truth] + rng.normal(size=(n, len(prior))) + np.log(prior)

    def model(more: float) -> Answers:
        out = known + more * np.eye(len(prior))[truth] + rng.normal(size=known.shape)
        power = np.exp(out - out.max(1, keepdims=True))
        return Answers(truth, out.argmax(1), (power / power.sum(1, keepdims=True)).astype(np.float32))

    return model(better), model(0.0)


def quantities(seed: int, n: int, spread: float = 1.0) -> tuple[Answers, Answers]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    first, second = (Answers(truth, truth + scale * rng.standard_t(4, size=n)) for scale in (spread, 1.0))
    return first, second


def by_scikit_learn(score: Score, said: Answers) -> float:
    truth, guess, shares = said
    if score == "balanced_accuracy":
        return 100 * float(reference.balanced_accuracy_score(truth, guess))
    if score == "macro_f1":
        return 100 * float(reference.f1_score(truth, guess, average="macro"))
    assert shares is not None
    if shares.shape[1] == 2:
        return 100 * float(reference.roc_auc_score(truth, shares[:, 1]))
    return 100 * float(reference.roc_auc_score(truth, shares / shares.sum(1, keepdims=True), multi_class="ovr"))


@pytest.mark.parametrize("score", CLASSES)
@pytest.mark.parametrize("prior", [[0.85, 0.15], [0.5, 0.3, 0.2]])
def test_differences_are_those_of_scikit_learn(score: Score, prior: list[float]) -> None:
    first, second = two_models(1, 200, prior, better=0.5)
    found, why = compared(score, first, second)
    assert not why and found.points == pytest.approx(
        by_scikit_learn(score, first) - by_scikit_learn(score, second), abs=1e-3
    )
    assert found.low < found.points < found.high


def test_errors_differ_by_percent_of_the_model_alone() -> None:
    first, second = quantities(2, 300, spread=0.5)
    for score, error in (("rmse", reference.root_mean_squared_error), ("mae", reference.mean_absolute_error)):
        ours, theirs = (float(error(said.truth, said.predicted)) for said in (first, second))
        found, _ = compared(score, first, second)  # type: ignore[arg-type]
        assert found.points == pytest.approx(100 * (1 - ours / theirs)) and found.low > 0
        assert found.high < 100


def test_where_classes_are_even_the_variance_is_mcnemars() -> None:
    truth = np.repeat([0, 1], 50)
    first, second = truth.copy(), truth.copy()
    second[:9] = 1  # nine losses and four wins
    first[60:64] = 0
    found, _ = compared("balanced_accuracy", Answers(truth, first), Answers(truth, second))
    assert found.points == pytest.approx(100 * (9 - 4) / 100)
    assert found.high - found.points == pytest.approx(100 * Z * math.sqrt(9 + 4 + 2 * ADDED) / 100)


@pytest.mark.parametrize("score", [*CLASSES, *ERRORS])
def test_the_interval_is_that_of_a_bootstrap_where_examples_are_many(score: Score) -> None:
    n = 600
    first, second = two_models(3, n, [0.6, 0.4]) if score in CLASSES else quantities(3, n)
    found, _ = compared(score, first, second)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(150):
        rows = rng.integers(n, size=n)
        pair = [Answers(*(None if part is None else part[rows] for part in said)) for said in (first, second)]  # type: ignore[arg-type]
        drawn.append(compared(score, *pair)[0].points)
    assert found.high - found.low == pytest.approx(2 * Z * np.std(drawn), rel=0.2)


@pytest.mark.parametrize("score", [*CLASSES, *ERRORS])
def test_models_that_change_sides_change_the_sign(score: Score) -> None:
    first, second = two_models(4, 80, [0.7, 0.2, 0.1], better=1.0) if score in CLASSES else quantities(4, 80, 0.3)
    one, other = compared(score, first, second)[0], compared(score, second, first)[0]
    assert one.points > 0 > other.points and one.clear == other.clear
    if score in CLASSES:
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))


@pytest.mark.parametrize("score", [*CLASSES, *ERRORS])
@pytest.mark.parametrize("n", [25, 100])
def test_models_that_are_as_good_are_seldom_told_apart(score: Score, n: int) -> None:
    """At a nominal 5 %, before anything is added for training."""
    clear = 0
    for seed in range(100):
        pair = two_models(seed, n, [0.8, 0.2]) if score in CLASSES else quantities(seed, n)
        clear += compared(score, *pair)[0].clear
    assert clear <= 9  # the chance of more is below 3 % at 5 %


@pytest.mark.parametrize("score", CLASSES)
def test_one_example_of_a_class_decides_nothing(score: Score) -> None:
    """A bootstrap would be certain: however often that example is drawn, it is always won."""
    truth = np.array([0] * 30 + [1])
    sure = np.linspace(0.01, 0.4, 31)
    one, other = sure.copy(), sure.copy()
    one[-1], other[-1] = 0.9, 0.001
    first, second = (Answers(truth, (p > 0.5).astype(int), np.stack([1 - p, p], axis=1)) for p in (one, other))
    found, _ = compared(score, first, second)
    assert found.points > 20 and not found.clear


def test_probabilities_that_round_to_one_still_have_an_order() -> None:
    """The odds of two float32 numbers are told apart where the larger of them is 1 in both."""
    truth = np.array([0, 0, 1, 1])
    far = np.array([[1, 1e-20], [1, 1e-19], [1, 1e-18], [1, 1e-17]], dtype=np.float32)
    flat = np.full((4, 2), 0.5, dtype=np.float32)
    found, _ = compared("auroc", Answers(truth, np.zeros(4), far), Answers(truth, np.zeros(4), flat))
    assert found.points == pytest.approx(50.0)


def test_a_model_that_fails_is_ranked_last() -> None:
    first, second = two_models(5, 40, [0.5, 0.5])
    assert first.probabilities is not None
    broken = Answers(first.truth, np.full(40, -1), np.full_like(first.probabilities, np.nan))
    for score in CLASSES:
        found, _ = compared(score, broken, second)
        assert found.points == pytest.approx(-by_scikit_learn(score, second), abs=1e-3) and found.high < 0


@pytest.mark.parametrize(
    ("score", "said", "words"),
    [
        ("auroc", Answers(np.ones(5, dtype=int), np.ones(5), np.full((5, 2), 0.5)), "all its test examples are of one"),
        ("auroc", Answers(np.array([0, 1]), np.array([0, 1])), "holds no probabilities"),
        ("macro_f1", Answers(np.array([]), np.array([])), "has no test examples"),
        ("rmse", Answers(np.array([1.0, 2.0]), np.array([1.0, math.inf])), "not finite"),
        ("mae", Answers(np.array([1.0]), np.array([2.0])), "one test example is not enough"),
        ("rmse", Answers(np.array([1.0, 2.0]), np.array([1.0, 2.0])), "neither model makes an error"),
    ],
)
def test_what_is_undefined_is_said_in_words(score: Score, said: Answers, words: str) -> None:
    found, why = compared(score, said, said)
    assert math.isnan(found.points) and words in why
