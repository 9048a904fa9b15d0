"""Alarms, by matrices and rounds made by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from report.reported_runs import SILOS, a_run

from amity.federation.events import Event
from amity.federation.messages import Measured
from amity.federation.reports import Progress, Round
from amity.record import Recorder, read
from amity.report.contents import Alarm
from amity.report.view_alarms import attention_alarms, course_alarms

NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]
UNIFORM = np.full((8, 8), 1 / 8)
ALONE = np.eye(8)


def alarms(matrix: np.ndarray, rounds: int = 3, names: list[str] | None = None) -> dict[str, Alarm]:
    found = attention_alarms({round: matrix for round in range(1, rounds + 1)}, names or NAMES[: len(matrix)])
    return {alarm["title"]: alarm for alarm in found}


def healthy() -> np.ndarray:
    """Pairs that listen to each other, and a little to everybody."""
    matrix = np.full((8, 8), 0.02)
    for one in range(8):
        matrix[one, one], matrix[one, one ^ 1] = 0.5, 0.38
    return matrix


def test_a_healthy_matrix_raises_none() -> None:
    assert alarms(healthy()) == {}
    assert attention_alarms({}, NAMES) == [] and attention_alarms({1: np.eye(1)}, ["a"]) == []


def test_collapsed_to_self() -> None:
    assert list(alarms(ALONE)) == ["collapsed to self"]
    nearly = 0.992 * ALONE + 0.008 / 7 * (1 - ALONE)
    assert list(alarms(nearly)) == ["collapsed to self"]
    assert "collapsed to self" not in alarms(0.98 * ALONE + 0.02 / 7 * (1 - ALONE))
    scaled = alarms(7 * ALONE)  # weights that do not sum to 1 count as shares
    assert scaled["collapsed to self"]["rounds"] == [1, 2, 3]


def test_uniform() -> None:
    assert list(alarms(UNIFORM)) == ["uniform attention"]
    sizes = np.array([8, 1, 1, 2, 2, 3, 1, 2]) / 20  # everybody gets the same average, by size
    assert list(alarms(np.tile(sizes, (8, 1)))) == ["uniform attention"]
    chosen = UNIFORM + 0.06 * (ALONE - UNIFORM)  # each silo moves 5.25 % of its mixture to itself
    assert "uniform attention" not in alarms(chosen)
    assert list(alarms(UNIFORM + 0.05 * (ALONE - UNIFORM))) == ["uniform attention"]  # 4.4 %


def test_a_state_must_have_lasted_for_three_rounds() -> None:
    rounds = {1: healthy(), 2: ALONE, 3: ALONE}
    assert [alarm["title"] for alarm in attention_alarms(rounds, NAMES)] == []
    assert [alarm["title"] for alarm in attention_alarms({**rounds, 4: ALONE}, NAMES)] == ["collapsed to self"]


def test_a_silo_nobody_listens_to() -> None:
    matrix = healthy()
    matrix[:7, 7] = 0.0
    matrix[6, 6] = 0.9
    found = alarms(matrix)
    assert list(found) == ["nobody listens"] and found["nobody listens"]["silos"] == ["h"]
    matrix[0, 7] = 0.1  # one that listens is enough
    assert alarms(matrix) == {}


def test_one_silo_dominates() -> None:
    matrix = np.full((8, 8), 0.02)
    np.fill_diagonal(matrix, 0.3)
    matrix[:, 2] = 0.5
    found = alarms(matrix)
    assert list(found) == ["one silo dominates"] and found["one silo dominates"]["silos"] == ["c"]
    assert "81%" in found["one silo dominates"]["words"]  # 0.5 of 0.5 + 6 x 0.02
    assert alarms(np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])) == {}  # of three each gives half


def test_negative_self_weight_is_told_with_its_rounds() -> None:
    matrix = healthy()
    matrix[3, 3] = -0.2
    found = {alarm["title"]: alarm for alarm in attention_alarms({1: healthy(), 2: matrix, 3: healthy()}, NAMES)}
    assert found["negative self weight"]["silos"] == ["d"] and found["negative self weight"]["rounds"] == [2]
    matrix[3, 3] = -0.009
    assert attention_alarms({1: matrix}, NAMES) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_silos_that_were_not_asked_and_runs_that_diverged(bad: float) -> None:
    matrix = ALONE.copy()
    matrix[5] = bad
    assert list(alarms(matrix)) == ["collapsed to self"]
    assert alarms(np.full((8, 8), bad)) == {}


def titles(found: list[Alarm]) -> list[str]:
    return [alarm["title"] for alarm in found]


def a_round(number: int, gone: dict[int, str], warnings: list[str]) -> Round:
    return Round(
        round=number,
        scores=None,
        took_part=[silo for silo in range(4) if silo not in gone],
        dropped=gone,
        epochs={},
        bytes_up=0,
        bytes_down=0,
        bytes_eval=0,
        seconds={},
        weights=None,
        progress=Progress(number, {}),
        warnings=warnings,
    )


def test_what_happened_in_rounds(tmp_path: Path) -> None:
    facts = dict(method="fedamp", data="d", setting="s", model="m", clients=4, seed=0, engine="flare", version="0.1")
    recorder = Recorder.create(tmp_path / "run", {"rounds": 6}, SILOS, facts)
    gone: list[dict[int, str]] = [
        {0: "absent"},
        {0: "absent", 2: "upload refused: params not finite"},
        {2: "upload refused: params not finite"},
        {0: "absent"},
        {place: "fewer uploads than the 3 that a round needs" for place in (1, 2)} | {0: "absent"},
    ]
    for number, missing in enumerate(gone, start=1):
        recorder.add(a_round(number, missing, ["the disk is slow"] if number < 3 else []))
    recorder.listen(Event("ended", 5, words="a took part in 1 of the 3 rounds that were agreed", time=1.0))
    recorder.interrupted()
    found = course_alarms(read(tmp_path / "run"))
    assert titles(found) == [
        *("unfinished", "less than was agreed", "below quorum", "warning", "refused uploads", "often absent")
    ]
    unfinished, less, quorum, warning, refused, absent = found
    assert unfinished["words"].startswith("5 of 6 rounds are on record")
    assert less["words"].startswith("a took part in 1 of the 3")
    assert quorum["rounds"] == [5] and warning["rounds"] == [1, 2] and warning["words"] == "the disk is slow"
    assert refused["silos"] == ["c"] and refused["rounds"] == [2, 3] and "params not finite" in refused["words"]
    assert absent["silos"] == ["a", "c"] and "a in 4 of 5 rounds" in absent["words"]


def test_scores_that_are_withheld_are_told_of_the_round_that_is_delivered(tmp_path: Path) -> None:
    """Who withholds changes from round to round: what counts is whose scores are missing in the mean that is shown."""
    facts = dict(method="fedamp", data="d", setting="s", model="m", clients=4, seed=0, engine="flare", version="0.1")
    recorder = Recorder.create(tmp_path / "run", {"rounds": 2}, SILOS, facts)
    for number, kept in ((1, {1}), (2, {1, 3})):
        scores = [
            Measured("", number, silo, 9, math.nan if silo in kept else 80.0, 1.0, {}, withheld=silo in kept)
            for silo in range(4)
        ]
        recorder.add(a_round(number, {}, [])._replace(scores=scores))
    recorder.interrupted()
    run = read(tmp_path / "run")
    assert [line["withheld"] for line in run.lines] == [[False, True, False, False], [False, True, False, True]]
    (found,) = course_alarms(run)
    assert (found["title"], found["silos"], found["rounds"]) == ("withheld scores", [SILOS[1], SILOS[3]], [2])
    assert found["words"].startswith(f"accuracy is withheld by {SILOS[1]}, {SILOS[3]}, where it rests on too few")
    assert found["words"].endswith("means are over the other 2 silos")


def test_a_finished_run_without_incidents_raises_none(tmp_path: Path) -> None:
    assert course_alarms(a_run(tmp_path / "run", "separate", [(5, 5, 5, 5)])) == []


def test_warnings_about_attention_are_told_once(tmp_path: Path) -> None:
    """The recorder warns of it in round 3 as well."""
    run = a_run(tmp_path / "run", "fedamp", [(5, 5, 5, 5)] * 3, torch.eye(4))
    assert titles([*course_alarms(run), *attention_alarms(run.weights, run.silos)]) == ["collapsed to self"]
