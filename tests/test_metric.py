"""The metrics that a run can be scored by: which way is better, and which words name them."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity import statistics
from amity.config.options import fields_of
from amity.config.run import Run
from amity.contract import InputError
from amity.metric import ACCURACY, METRICS, R2, RMSE, SHORT, Metric, MetricKey, MetricWord, main_metric
from amity.record.contents import MainScore, Scored

LOWER = {"rmse", "mae"}

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9)


def test_metrics_have_one_list_of_names() -> None:
    assert set(METRICS) == set(get_args(MetricKey)) == set(get_args(MainScore))
    assert set(get_args(MetricWord)) == {"auto", *SHORT, *METRICS}
    assert set(METRICS) <= Scored.__annotations__.keys()
    assert {key for key, metric in METRICS.items() if metric.better == "lower"} == LOWER
    assert {key for key, metric in METRICS.items() if not metric.unit} == LOWER


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
@given(values=numbers)
def test_the_best_and_the_worst_are_its_ends(metric: Metric, values: list[float]) -> None:
    ends = (min(values), max(values)) if metric.key in LOWER else (max(values), min(values))
    assert (metric.best(values), metric.worst(values)) == ends
    assert not any(metric.beats(value, metric.best(values)) for value in values)
    assert all(metric.beats(value, metric.failed) for value in values)
    assert not metric.beats(math.nan, ends[1]) and not metric.beats(ends[0], math.nan)


def test_a_gain_is_positive_where_it_is_better() -> None:
    assert ACCURACY.gain(90, 85) == 5 and RMSE.gain(90, 85) == -5
    assert (ACCURACY.failed, R2.failed, RMSE.failed) == (-math.inf, -math.inf, math.inf)


def test_no_value_has_no_end() -> None:
    assert math.isnan(RMSE.best([])) and math.isnan(ACCURACY.worst([]))


def test_how_it_is_said() -> None:
    assert (ACCURACY.heading, RMSE.heading) == ("Accuracy %", "RMSE")
    assert METRICS["balanced_accuracy"].heading == "Balanced accuracy %"
    assert (ACCURACY.text(86.254), RMSE.text(0.0123456), RMSE.text(1234.56)) == ("86.25 %", "0.01235", "1235")


@pytest.mark.parametrize(
    ("word", "classes", "key"),
    [
        ("auto", 10, "accuracy"),
        ("auto", 1, "accuracy"),
        ("auto", 0, "r2"),
        ("balanced", 2, "balanced_accuracy"),
        ("balanced_accuracy", 2, "balanced_accuracy"),
        ("f1", 3, "macro_f1"),
        ("auroc", 2, "auroc"),
        ("rmse", 0, "rmse"),
        ("r2", 0, "r2"),
    ],
)
def test_words_and_labels_name_a_metric(word: str, classes: int, key: str) -> None:
    assert main_metric(word, classes).key == key


@pytest.mark.parametrize(
    ("word", "classes", "words"),
    [
        ("r2", 3, "metric r2 is for quantities, the labels here are classes: try one of accuracy, balanced, f1, auroc"),
        ("balanced", 0, "metric balanced is for classes, the labels here are quantities: try one of r2, rmse, mae"),
        ("auroc", 1, "metric auroc needs two classes, the labels here have one: try accuracy"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_in_one_line(word: str, classes: int, words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}$"):
        main_metric(word, classes)


def test_a_run_takes_these_words_and_no_others() -> None:
    assert fields_of(Run)["metric"].default == "auto"
    assert [Run("fedavg", metric=word).metric for word in get_args(MetricWord)] == list(get_args(MetricWord))
    with pytest.raises(InputError, match="run needs metric to be one of auto, accuracy, balanced, auroc, f1, r2, rmse"):
        Run("fedavg", metric="auc")  # type: ignore[arg-type]


def test_statistics_ask_the_metric() -> None:
    """Silos with errors of 1, 3 and one unknown; a later round is better if its mean error is lower."""
    assert statistics.worst([1.0, math.nan, 3.0], RMSE) == 3.0 and statistics.worst([1.0, math.nan, 3.0]) == 1.0
    first = statistics.better(None, 1, [1.0, 3.0], RMSE)
    assert statistics.better(first, 2, [2.0, 3.0], RMSE) is first
    assert statistics.better(first, 2, [1.0, 2.0], RMSE).round == 2
    assert statistics.better(first, 2, [2.0, 2.0], RMSE) is first  # the first to attain a mean keeps it
    lost = statistics.better(None, 1, [0.1, math.inf], RMSE)
    assert lost.mean == math.inf and statistics.better(lost, 2, [9.0, 9.0], RMSE).round == 2
    assert statistics.better(first, 2, [0.1, math.inf], RMSE) is first
