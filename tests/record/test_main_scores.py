"""Records of runs with a main score that is not accuracy: which round is delivered, which silo is worst."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from record.rounds_by_hand import CONFIG, FACTS, SILOS, a_round, add_round, saved_at

from amity import record
from amity.contract import Score
from amity.federation.reports import Round
from amity.record import Recorder, metric_of, read, scores_of
from amity.record.contents import MainScore
from amity.record.summary import values_of


def scored(main: MainScore, values: Sequence[float], val: float, **others: float) -> list[Score]:
    """Every silo's score by this metric; the other metrics are equal for all."""
    return [Score(torch.tensor([0.5]), 1.0, {**others, main: value}, val, scored_by=main) for value in values]


def test_a_lower_error_is_better_everywhere(tmp_path: Path) -> None:
    """Errors of three silos. Round 2 has the least mean on validation data, round 3 on test data."""
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": "rmse"})
    add_round(recorder, 1, scores=scored("rmse", [4.0, 6.0, 8.0], 5.0, r2=30.0, mae=3.0))
    line = add_round(recorder, 2, scores=scored("rmse", [3.0, 1.0, 5.0], 2.0, r2=60.0, mae=2.0))
    assert recorder.chosen_now
    add_round(recorder, 3, scores=scored("rmse", [1.0, 1.0, 1.0], 3.0, r2=70.0, mae=1.0))
    assert not recorder.chosen_now
    add_round(recorder, 4, scores=scored("rmse", [9.0, 9.0, 9.0], 9.0, r2=-5.0, mae=9.0))
    assert (line["mean"], line["worst"], line["rmse"]) == (3.0, 5.0, [3.0, 1.0, 5.0])
    assert line["metrics"] == {"r2": 60.0, "mae": 2.0} and "accuracy" not in line and "r2" not in line
    assert metric_of(line).key == "rmse" and scores_of(line, "r2") == [60.0] * 3
    assert record.in_words(line) == "mean 3 worst 5 (RMSE)"
    recorder.checkpoint(saved_at(4, chosen=2))
    del recorder
    again, _ = Recorder.resume(tmp_path, CONFIG)
    summary = again.interrupted()
    assert summary is not None and summary["score"] == "rmse" and summary["bmta"] is None
    assert (summary["delivered"], summary["delivered_round"], summary["worst"]) == (3.0, 2, 5.0)
    assert (summary["best_on_test"], summary["best_on_test_round"]) == (1.0, 3)
    assert summary["last"] == 9.0
    assert read(tmp_path).results == summary


def test_a_model_that_has_failed_never_wins_by_its_error(tmp_path: Path) -> None:
    """Infinity is null in files, and worse than any number: also where lower is better."""
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": "rmse"})
    add_round(recorder, 1, scores=scored("rmse", [0.1, math.inf, 0.1], math.inf))
    add_round(recorder, 2, scores=scored("rmse", [5.0, 7.0, 6.0], 6.0))
    line = add_round(recorder, 3, scores=scored("rmse", [0.1, math.inf, 0.1], math.inf))
    assert line["mean"] is line["worst"] is line["val"] is None and line["rmse"] == [0.1, None, 0.1]
    summary = recorder.interrupted()
    assert summary is not None and (summary["best_on_test"], summary["best_on_test_round"]) == (6.0, 2)
    assert (summary["delivered_round"], summary["worst"]) == (2, 7.0)


@pytest.mark.parametrize("main", ["balanced_accuracy", "macro_f1", "auroc"])
def test_other_scores_of_classes_are_compared_as_accuracies_are(tmp_path: Path, main: MainScore) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": main})
    line = add_round(recorder, 1, scores=scored(main, [40.0, 60.0, 80.0], 5.0, accuracy=90.0))
    add_round(recorder, 2, scores=scored(main, [30.0, 30.0, 30.0], 4.0, accuracy=99.0))
    assert (line["mean"], line["worst"], line["metrics"]) == (60.0, 40.0, {"accuracy": 90.0})
    assert scores_of(line) == [40.0, 60.0, 80.0] and scores_of(line, "accuracy") == [90.0] * 3
    summary = recorder.interrupted()
    assert summary is not None and (summary["delivered_round"], summary["best_on_test_round"]) == (1, 1)
    assert summary["bmta"] is None and summary["metrics"] is not None
    assert summary["metrics"].get("delivered") == {"accuracy": 90.0}


def withholding(number: int, kept: set[int], values: Sequence[float]) -> Round:
    """A round in which these silos keep their scores to themselves."""
    report = a_round(number)
    assert report.scores is not None
    return report._replace(
        scores=[
            score._replace(
                main=math.nan if silo in kept else value,
                loss=math.nan if silo in kept else score.loss,
                metrics={"auroc": math.nan if silo in kept else 70.0},
                val=10.0 * number,
                withheld=silo in kept,
            )
            for silo, (score, value) in enumerate(zip(report.scores, values, strict=True))
        ]
    )


def test_silos_that_withhold_their_scores_are_named_once_and_no_mean_counts_them(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    lines = [recorder.add(withholding(1, {1}, [50.0, 60.0, 70.0])), recorder.add(withholding(2, {0, 1}, [1, 2, 90.0]))]
    assert [(line["mean"], line["worst"]) for line in lines] == [(60.0, 50.0), (90.0, 90.0)]
    assert lines[0]["accuracy"] == [50.0, None, 70.0] and lines[0]["withheld"] == [False, True, False]
    said = "accuracy is withheld by 1 of 3 silos, where it rests on too few examples (min_count), and no mean counts "
    assert [one for one in lines[0]["warnings"] if "withheld" in one] == [f"{said}them: {SILOS[1]}"]
    assert not any("withheld" in one or "undefined" in one for one in lines[1]["warnings"])
    recorder.interrupted()
    found = read(tmp_path).results
    assert found["per_client"] == [None, None, 90.0] and found["delivered"] == 90.0 and found["spread"] == 0.0


def test_what_all_silos_withhold_is_no_failure(tmp_path: Path) -> None:
    """An error where all silos have failed is infinite, and null on disk, as one is that nobody tells."""
    facts = {**FACTS, "score": "rmse"}
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, facts)
    line = recorder.add(withholding(1, {0, 1, 2}, [1.0, 1.0, 1.0]))
    assert line["mean"] is None and all(map(math.isnan, values_of(line)))
    failed = recorder.add(withholding(2, {0}, [1.0, math.inf, 2.0]))
    assert failed["mean"] is None and failed["rmse"] == [None, None, 2.0]
    assert math.isnan(values_of(failed)[0]) and values_of(failed)[1:] == [math.inf, 2.0]


def test_silos_without_a_score_are_named_once_and_left_out(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": "auroc"})
    first = add_round(recorder, 1, scores=scored("auroc", [70.0, math.nan, 90.0], 5.0))
    second = add_round(recorder, 2, scores=scored("auroc", [70.0, math.nan, 90.0], 5.0))
    assert first["mean"] == 80.0 and first["worst"] == 70.0 and first["auroc"] == [70.0, None, 90.0]
    said = "AUROC is undefined at 1 of 3 silos, whose test labels are of one class only, and no mean counts them: "
    assert [warning for warning in first["warnings"] if "undefined" in warning] == [said + SILOS[1]]
    assert not any("undefined" in warning for warning in second["warnings"])
