"""The summary of a run: which round is delivered, which was best on test data, and what all lines come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast, get_type_hints

from amity import statistics
from amity.contract import Score
from amity.metric import METRICS, Metric, MetricKey
from amity.record.contents import CloudScores, Facts, Line, MainScore, Scored, Scores, Subject, Summary
from amity.record.files import Array, plain

SUMMARY_FACTS = tuple(get_type_hints(Subject))
"""Facts that the summary repeats; `Recorder.create` needs them all. "groups" is used where it is given."""

LATER_KEYS = {
    "delivered",
    "delivered_round",
    "chosen_by",
    "spread",
    "cloud",
    "best_on_test",
    "best_on_test_round",
    "metrics",
}
"""Keys of a summary that speaks of delivered models; those of earlier versions spoke of the best round on test data."""


def evaluated(lines: Iterable[Line]) -> list[Line]:
    """Return the rounds that were evaluated; with `evaluate_every` not all are."""
    return [line for line in lines if scores_of(line) is not None]


def metric_of(line: Scored) -> Metric:
    """Return the metric that a round is scored by: the one whose name is a key of its line."""
    return next(metric for key, metric in METRICS.items() if key in line)


def scores_of(line: Scored, key: MetricKey | None = None) -> Scores | None:
    """Return every silo's main score in a round, as its line has it, or another metric's value; None without them."""
    main = metric_of(line).key
    return line[main] if key in (None, main) else (line.get("per_silo") or {}).get(str(key))


def values_of(line: Scored) -> list[float]:
    """Return every silo's main score. A mean is null only if a silo has failed, or if there is nothing to measure.

    What a silo withholds is no failure, whatever the others' models are like.
    """
    scores = scores_of(line) or ()
    missing = metric_of(line).failed if line["mean"] is None else math.nan
    withheld = line.get("withheld") or [False] * len(scores)
    null = [math.nan if kept else missing for kept in withheld]
    return [default if value is None else value for value, default in zip(scores, null, strict=True)]


def in_words(line: Line, keys: Sequence[Literal["mean", "worst"]] = ("mean", "worst")) -> str:
    """Return a round's scores in a few words, "mean 88.20 worst 61.54"; nothing where it was not evaluated.

    The metric is named where it is not the usual one of such labels.
    """
    metric = metric_of(line)
    found = [f"{key} {metric.digits(value)}" for key in keys if (value := line[key]) is not None]
    return " ".join([*found, *([] if metric.usual or not found else [f"({metric.title})"])])


def best_of(lines: Iterable[Line]) -> statistics.Best | None:
    """Return the round with the best mean on test data, which only the papers' tables may choose: it has the BMTA."""
    best = None
    for line in evaluated(lines):
        best = statistics.better(best, line["round"], values_of(line), metric_of(line))
    return best


def score_of(facts: Facts) -> MainScore:
    """Return the name of the main score, a key of `METRICS`: "accuracy" in runs that do not say it."""
    return facts.get("score", "accuracy")


def validated_round(lines: Iterable[Line]) -> Line | None:
    """Return the round that silos would choose by their validation data: the first with the best mean score on them."""
    means = [(line, mean) for line in lines if (mean := line.get("val")) is not None]
    return max(means, key=lambda pair: metric_of(pair[0]).rank(pair[1]))[0] if means else None


def delivered(lines: Iterable[Line]) -> Line | None:
    """Return the round whose models a run delivers: the ending, where there is one, else the round that validation data
    choose, else the last evaluated one.

    Test data have no part in it, so that its score is what a user of the models can expect.
    """
    lines = list(lines)
    if lines and lines[-1].get("ending"):
        return lines[-1]
    return validated_round(lines) or next(reversed(evaluated(lines)), None)


def summarise(
    facts: Facts,
    lines: Sequence[Line],
    weights: Array | None,
    seconds: float,
    clouds: Sequence[Score | None] | None = None,
) -> Summary:
    """Return the results of the rounds so far. The order of the keys is part of the format.

    `clouds`: each silo's cloud model of the delivered round on its test data; None where it was sent none.
    """
    best, measured, chosen, given = best_of(lines), evaluated(lines), validated_round(lines), delivered(lines)
    main = score_of(facts)
    per_client = values_of(given) if given else []
    summary: Summary = {
        "method": facts["method"],
        "data": facts["data"],
        "setting": facts["setting"],
        "model": facts["model"],
        "clients": facts["clients"],
        "rounds": len(lines),
        "seed": facts["seed"],
        "score": main,
        "delivered": given["mean"] if given else None,
        "delivered_round": given["round"] if given else None,
        "chosen_by": None if given is None else _chosen_by(given, chosen),
        "worst": statistics.worst(per_client, METRICS[main]),
        "spread": statistics.spread(per_client),
        "per_client": list(per_client),
        "cloud": None if clouds is None else _clouds(clouds, METRICS[main]),
        "last": measured[-1]["mean"] if measured else None,
        "bmta": best.mean if best and main == "accuracy" else None,
        "best_on_test": best.mean if best else None,
        "best_on_test_round": best.round if best else None,
        "best_on_test_per_client": list(best.scores) if best else [],
        "metrics": {
            "delivered": given.get("metrics") if given else None,
            "delivered_per_client": given.get("per_silo") if given else None,
            "best_on_test": lines[best.round - 1].get("metrics") if best else None,
            "last": measured[-1].get("metrics") if measured else None,
        },
        "seconds": seconds,
        "bytes_up": sum(line["bytes_up"] for line in lines),
        "bytes_down": sum(line["bytes_down"] for line in lines),
        "bytes_eval": sum(line["bytes_eval"] for line in lines),
        "block_score": None if weights is None else statistics.block_score(weights, facts.get("groups")),
        "engine": facts["engine"],
        "version": facts["version"],
    }
    if spared := sum(line.get("bytes_spared", 0) for line in lines):
        summary["bytes_spared"] = spared
    return cast(Summary, plain(summary))


def _chosen_by(given: Line, chosen: Line | None) -> str:
    if given.get("ending"):
        return "ending"
    return "last round" if chosen is None else "validation"


def _clouds(scores: Sequence[Score | None], metric: Metric) -> CloudScores:
    """Return the cloud models' scores, over the silos that have one."""
    values = [math.nan if score is None else score.main for score in scores]
    return {"mean": statistics.mean(values), "worst": statistics.worst(values, metric), "per_client": list(values)}


def latest(weights: Mapping[int, Array]) -> Array | None:
    """Return the weights of the last round that has some."""
    return weights[max(weights)] if weights else None
