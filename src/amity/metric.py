"""The metrics that a run can be scored by, and which way each of them is better. No torch here.

A run has one *main score*: `--metric` names it, `auto` is accuracy where labels are classes and R2 where they are
quantities. Rounds, methods and silos are compared by it, and by nothing else. That lower values of RMSE are better is
said here and nowhere else: whoever compares two scores asks the metric.

How metrics are computed stands in `learn/metrics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from amity.errors import InputError

MetricKey = Literal["accuracy", "balanced_accuracy", "macro_f1", "auroc", "r2", "rmse", "mae"]
"""Names of metrics in files."""

MetricWord = Literal[
    "auto", "accuracy", "balanced", "auroc", "f1", "r2", "rmse", "mae", "balanced_accuracy", "macro_f1"
]
"""Words that `--metric` takes: short ones, and names as files have them."""

Better = Literal["higher", "lower"]
Labels = Literal["classes", "quantities"]


class Metric(NamedTuple):
    """A way to score a model on a silo's examples.

    >>> RMSE.best([2.0, 0.5]), RMSE.worst([2.0, 0.5]), RMSE.beats(0.5, 2.0)
    (0.5, 2.0, True)
    """

    key: MetricKey  # its name in files
    title: str  # as in a sentence
    unit: Literal["%", ""]  # nothing: that of the labels
    better: Better
    labels: Labels  # what it is a score of
    short: str  # its title where there is little room

    def rank(self, value: float) -> float:
        """Return a number that is larger for better values."""
        return value if self.better == "higher" else -value

    def beats(self, one: float, other: float) -> bool:
        """Return whether one value is better than another; NaN neither beats nor is beaten."""
        return self.rank(one) > self.rank(other)

    def gain(self, one: float, other: float) -> float:
        """Return how much better one value is than another: negative where it is worse."""
        return self.rank(one) - self.rank(other)

    def best(self, values: Iterable[float]) -> float:
        """Return the best of these values, of which none is NaN; NaN where there are none."""
        return max(values, key=self.rank, default=math.nan)

    def worst(self, values: Iterable[float]) -> float:
        """Return the worst of these values, of which none is NaN; NaN where there are none."""
        return min(values, key=self.rank, default=math.nan)

    @property
    def failed(self) -> float:
        """The value of a model that has failed, which is worse than any other: infinity, or minus infinity."""
        return self.rank(-math.inf)

    @property
    def heading(self) -> str:
        """Its title with its unit, as it stands above a column: "Balanced accuracy %"."""
        return f"{self.title[0].upper()}{self.title[1:]} {self.unit}".rstrip()

    @property
    def usual(self) -> bool:
        """Whether it is what `auto` gives: then scores need no name."""
        return self.key in ("accuracy", "r2")

    def digits(self, value: float) -> str:
        """Return a value as people read it, without its unit."""
        return f"{value:.2f}" if self.unit else f"{value:.4g}"

    def text(self, value: float) -> str:
        """Return a value with its unit, as people read it."""
        return f"{self.digits(value)} {self.unit}".rstrip()


ACCURACY = Metric("accuracy", "accuracy", "%", "higher", "classes", "accuracy")
BALANCED_ACCURACY = Metric("balanced_accuracy", "balanced accuracy", "%", "higher", "classes", "balanced")
MACRO_F1 = Metric("macro_f1", "macro F1", "%", "higher", "classes", "F1")
AUROC = Metric("auroc", "AUROC", "%", "higher", "classes", "AUROC")
R2 = Metric("r2", "R²", "%", "higher", "quantities", "R²")
RMSE = Metric("rmse", "RMSE", "", "lower", "quantities", "RMSE")
MAE = Metric("mae", "MAE", "", "lower", "quantities", "MAE")

METRICS: Mapping[str, Metric] = {
    metric.key: metric for metric in (ACCURACY, BALANCED_ACCURACY, MACRO_F1, AUROC, R2, RMSE, MAE)
}
"""All metrics by name, in the order in which they are shown; the first of either kind of labels is its `auto`."""

SHORT: Mapping[str, str] = {"balanced": "balanced_accuracy", "f1": "macro_f1"}
"""Short words for names of metrics, as the command line takes them."""


def main_metric(word: str, classes: int) -> Metric:
    """Return the metric that a run is scored by, where labels are so many classes; 0: quantities.

    Refuse one that does not fit the labels.
    """
    labels: Labels = "classes" if classes else "quantities"
    fitting = [metric for metric in METRICS.values() if metric.labels == labels]
    if word == "auto":
        return fitting[0]
    metric = METRICS[SHORT.get(word, word)]
    known = ", ".join(_word(one) for one in fitting)
    if metric.labels != labels:
        raise InputError(f"metric {word} is for {metric.labels}, the labels here are {labels}: try one of {known}")
    if classes == 1 and metric is not ACCURACY:
        raise InputError(f"metric {word} needs two classes, the labels here have one: try accuracy")
    return metric


def _word(metric: Metric) -> str:
    """Return the shortest word for a metric."""
    return next((word for word, key in SHORT.items() if key == metric.key), metric.key)
