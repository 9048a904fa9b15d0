"""The record of a run between silos: every silo that is invited has its place, whether it has come yet or not."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import DIGITS, small_run
from sites import contract_of

from amity import record
from amity.errors import DamagedFile, InputError, LostWorker
from amity.federation.events import Event
from amity.federation.messages import Measured, absent
from amity.federation.reports import Progress, Round
from amity.federation.run_contract import RunContract
from amity.hub.recording import Journal, placed
from amity.report import compare_table, write_report

INVITED = ["ash", "birch", "cedar", "date"]
METRICS = {"balanced_accuracy": 40.0, "macro_f1": 30.0, "auroc": 60.0}


def contract(**options: Any) -> RunContract:
    return contract_of(small_run("fedamp", **options), DIGITS, INVITED)


def score(round: int, silo: int, main: float = 50.0, **more: Any) -> Measured:
    return Measured("trial", round, silo, 10, main, 20.0, METRICS)._replace(**more)


def report(number: int, clients: int = 2, **more: Any) -> Round:
    """A round of those who have come: ash and cedar at first, then birch."""
    weights = torch.eye(clients, dtype=torch.float64)
    weights[0, 1] = 0.25
    base = Round(
        round=number,
        scores=[score(number, client, 50.0 + client) for client in range(clients)],
        took_part=list(range(clients)),
        dropped={},
        epochs=dict.fromkeys(range(clients), 1),
        bytes_up=10,
        bytes_down=20,
        bytes_eval=0,
        seconds={"train": 1.0},
        weights=weights,
        progress=Progress(number, {}),
        warnings=[],
    )
    return base._replace(**more)


NAMES = ["cedar", "ash"]  # in the order of their numbers


def test_everybody_who_is_invited_has_a_place() -> None:
    found = placed(report(1, dropped={1: "it is away"}, took_part=[0], epochs={0: 1}), NAMES, contract())
    assert found.took_part == [2] and found.dropped == {0: "it is away"} and found.epochs == {2: 1}
    assert found.scores is not None
    assert [one.silo for one in found.scores] == [0, 1, 2, 3] and [one.examples for one in found.scores] == [
        10,
        0,
        10,
        0,
    ]
    assert found.scores[2].main == 50.0 and found.scores[0].main == 51.0 and math.isnan(found.scores[1].main)
    assert found.weights is not None and found.weights.shape == (4, 4)
    assert found.weights[2, 0] == 0.25 and found.weights[0, 0] == 1 and bool(found.weights[1].isnan().all())
    assert placed(report(1, scores=None, weights=None), NAMES, contract()).scores is None


def test_scores_have_the_metrics_that_the_contract_announces_and_no_others() -> None:
    strange = [score(1, 0, metrics={"height": 3.0, "auroc": 1.0}), absent("trial", 1, 1)]
    found = placed(report(1, scores=strange), NAMES, contract()).scores
    assert found is not None and all(one.metrics.keys() == METRICS.keys() for one in found)
    assert found[2].metrics["auroc"] == 1.0 and math.isnan(found[2].metrics["macro_f1"])


def test_losses_in_training_are_those_that_were_asked_for() -> None:
    given = report(1, scores=[score(1, 0, train_loss=0.5), score(1, 1)])
    for wanted, losses in ((False, [None] * 4), (True, [math.nan, math.nan, 0.5, math.nan])):
        found = placed(given, NAMES, contract(train_loss=wanted)).scores
        assert found is not None and str([one.train_loss for one in found]) == str(losses)


def journal(folder: Path, done: int, **options: Any) -> Journal:
    terms = contract(**options)
    return Journal(folder, terms, terms.options, done)


def test_a_record_is_written_gone_on_with_and_ended(tmp_path: Path) -> None:
    with journal(tmp_path, 0) as first:
        first.listen(Event("round", 1, time=1.0))
        assert first.add(report(1), NAMES)["took_part"] == ["ash", "cedar"]
    with journal(tmp_path, 1) as again:
        assert [line["round"] for line in again.lines] == [1] and not again.chosen and not again.chosen_now
        again.add(report(2, 3), ["cedar", "ash", "birch"])
    with journal(tmp_path, 3) as behind:  # the server had saved a round that was not on record yet
        behind.add(report(3, 3), ["cedar", "ash", "birch"])
        behind.finish()
        behind.finish()
    found = record.read(tmp_path / "record")
    assert found.silos == INVITED and found.facts["engine"] == "flare" and found.summary is not None
    assert [line["accuracy"] for line in found.lines] == [[51.0, None, 50.0, None], *[[51.0, 52.0, 50.0, None]] * 2]
    assert found.lines[0]["mean"] == 50.5 and list(found.weights) == [1, 2, 3]
    write_report([found], tmp_path / "report.html")
    compare_table([found], None)
    with journal(tmp_path, 3) as ended:
        ended.finish()
    shutil.rmtree(tmp_path / "record" / "checkpoint")  # a run that is ended needs none
    with journal(tmp_path, 3) as ended:
        ended.finish()
    assert record.read(tmp_path / "record").summary == found.summary


def test_a_run_that_goes_on_has_told_of_its_last_round(tmp_path: Path) -> None:
    """What was told after it is told again."""
    with journal(tmp_path, 0) as first:
        first.listen(Event("round", 1, time=1.0))
        first.add(report(1), NAMES, first.listen)
        first.listen(Event("round", 2, time=2.0))
    with journal(tmp_path, 1) as again:
        again.listen(Event("round", 2, time=3.0))
    told = record.read(tmp_path / "record").events
    assert [(event.what, event.round) for event in told] == [("round", 1), ("recorded", 1), ("round", 2)]
    assert told[1].words == "mean 50.50" and told[2].time == 3.0


def test_rounds_are_recorded_by_the_contracts_metric(tmp_path: Path) -> None:
    """Balanced accuracy is the main score, accuracy one of the metrics beside it; silos that are away have none."""
    agreed = contract(metric="balanced")
    beside = {"accuracy": 90.0, "macro_f1": 30.0, "auroc": 60.0}
    with Journal(tmp_path, agreed, agreed.options, 0) as one:
        line = one.add(report(1, scores=[score(1, 0, 40.0, metrics=beside), score(1, 1, 60.0, metrics=beside)]), NAMES)
    assert line["balanced_accuracy"] == [60.0, None, 40.0, None] and (line["mean"], line["worst"]) == (50.0, 40.0)
    assert line["metrics"] == beside and "accuracy" not in line
    assert record.read(tmp_path / "record").facts.get("score") == "balanced_accuracy"
    assert record.in_words(line, ["mean"]) == "mean 50.00 (balanced accuracy)"


@pytest.mark.parametrize("done", [1, 2])
def test_a_record_goes_back_with_its_server(tmp_path: Path, done: int) -> None:
    with journal(tmp_path, 0) as first:
        first.add(report(1), NAMES)
        first.add(report(2), NAMES)
    with journal(tmp_path, done) as again:
        assert len(again.lines) == done
        if done == 1:
            again.add(report(2, took_part=[1]), NAMES)
    took = [line["took_part"] for line in record.read(tmp_path / "record").lines]
    assert took == [["ash", "cedar"], ["ash"] if done == 1 else ["ash", "cedar"]]


@pytest.mark.parametrize("done", [0, 5])
def test_a_record_of_other_rounds_is_not_written_to(tmp_path: Path, done: int) -> None:
    with journal(tmp_path, 0) as first:
        first.add(report(1), NAMES)
        first.add(report(2), NAMES)
    with pytest.raises(DamagedFile, match=f"rounds, the server goes on from round {done}: bring back a copy"):
        journal(tmp_path, done)
    with journal(tmp_path, len(record.read(tmp_path / "record").lines)):  # and nobody holds it
        pass


@pytest.mark.parametrize("error", [InputError("no"), LostWorker("gone"), ZeroDivisionError()])
def test_whatever_ends_a_run_its_record_can_be_read_and_gone_on_from(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)), journal(tmp_path, 0) as first:
        first.add(report(1), NAMES)
        raise error
    assert record.read(tmp_path / "record").results["rounds"] == 1
    with journal(tmp_path, 1) as again:
        again.add(report(2), NAMES)
    assert len(record.read(tmp_path / "record").lines) == 2


def test_validation_data_choose_also_what_was_recorded_before(tmp_path: Path) -> None:
    vals = [10.0, 30.0, 20.0]
    for number, val in enumerate(vals, start=1):
        with journal(tmp_path, number - 1) as one:
            assert one.chosen_now == (number > 1)  # the last is the best so far, seen from a new process
            one.add(report(number, scores=[score(number, 0, val=val), score(number, 1, val=val)]), NAMES)
            assert one.chosen and one.chosen_now == (number != 3)
    with journal(tmp_path, 3) as last:
        assert last.chosen and not last.chosen_now
