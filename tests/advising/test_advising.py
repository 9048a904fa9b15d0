"""Advice: clear where joining clearly helps or harms, level where it is level, and blind to test data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from small import randn

import amity
from amity.advising.answer import join_of, reason_of
from amity.advising.expected import at_silo, over_silos, score_at
from amity.advising.probe import Said, candidates
from amity.contract import Split
from amity.left_out import PARTS, parts_of, without
from amity.worth.consortium import Counts
from amity.worth.paired import UNKNOWN, Difference

RUN = amity.Run(model="mlr", epochs=2, lr=0.05, workers=1)
QUICK: dict[str, Any] = {"rounds": 3, "folds": 2}
FEATURES = 12


def federation(*turned: bool, size: int = 16, classes: int = 2) -> amity.Silos:
    """Silos of one rule; some call its classes by other names."""
    rule = randn(FEATURES, seed=99)
    parts = {}
    for place, turn in enumerate(turned):
        x = randn(size + 8, FEATURES, seed=place)
        y = (x @ rule > 0).long() if classes else x @ rule
        y = ((1 - y) if classes else -y) if turn else y
        parts[f"silo-{place}"] = (x[:size].float(), y[:size], x[size:].float(), y[size:])
    return amity.own_silos(parts, classes=classes)


def test_many_small_silos_of_one_rule_had_better_join() -> None:
    advice = amity.advise(RUN, federation(*[False] * 8), **QUICK)
    assert advice.join == "yes" and advice.method == advice.tried and advice.gain.low > 0
    assert advice.answer.startswith(f"join: {advice.tried} is expected to gain ") and "--safe" in advice.answer
    assert advice.command.startswith(f"amity run {advice.tried} --data digits ") and "--safe true" in advice.command
    assert len(advice.silos) == 8 and all(one.examples == 16 * 2 // PARTS for one in advice.silos)
    told = advice.json()
    assert told["join"] == "yes" and told["gain"]["low"] > 0 and len(told["silos"]) == 8


def test_silos_that_contradict_each_other_are_not_told_to_join() -> None:
    advice = amity.advise(RUN, federation(*[False, True] * 3, size=40), rounds=2, folds=1)
    assert advice.join in ("level", "no") and advice.method == "separate" and advice.gain.low <= 0
    assert "amity run separate" in advice.command and "--ending auto" in advice.command
    assert not advice.answer.startswith("join")


def test_test_data_are_not_looked_at_and_seeds_repeat() -> None:
    silos = federation(False, False, True, size=12)
    poisoned = tuple(
        silo._replace(test=Split(1e6 * torch.randn_like(silo.test.x), 1 - silo.test.y)) for silo in silos.silos
    )
    how: dict[str, Any] = {"rounds": 1, "folds": 1}
    one = amity.advise(RUN, silos, **how).json()
    assert one == amity.advise(RUN, replace(silos, silos=poisoned), **how).json()
    assert one != amity.advise(replace(RUN, seed=1), silos, **how).json()


def test_quantities_are_judged_by_r2() -> None:
    advice = amity.advise(RUN, federation(*[False] * 5, size=16, classes=0), rounds=2, folds=1)
    assert advice.score == "r2" and "points of R²" in advice.answer and "Labels are quantities." in str(advice)


def test_every_example_is_left_out_once() -> None:
    silos = federation(False, True, size=22)
    for place, silo in enumerate(silos.silos):
        seen = [without(silos, part, 5).silos[place] for part in range(PARTS)]
        rows = torch.cat([one.test.x for one in seen])
        assert sorted(rows[:, 0].tolist()) == sorted(silo.train.x[:, 0].tolist())
        for one in seen:
            assert len(one.train.y) + len(one.test.y) == 22
            assert not set(one.train.x[:, 0].tolist()) & set(one.test.x[:, 0].tolist())


def test_labels_are_spread_evenly_over_the_parts() -> None:
    y = torch.tensor([0] * 8 + [1] * 12 + [2] * 4)
    parts = parts_of(y, torch.Generator().manual_seed(1))
    for label, count in ((0, 2), (1, 3), (2, 1)):
        assert parts[y == label].bincount(minlength=PARTS).tolist() == [count] * PARTS


def test_all_go_on_to_their_own_end() -> None:
    runs = candidates(replace(RUN, safe=True))
    assert [(one.method, one.ending, one.safe) for one in runs] == [
        ("separate", "auto", False),
        ("accord", "auto", False),
        ("fedavg", "auto", False),
    ]
    assert {one.ending for one in candidates(replace(RUN, ending="none"))} == {"none"}


def test_the_interval_over_silos_is_students() -> None:
    points = [1.0, 4.0, -2.0, 3.0, 5.0, 0.5]
    found = over_silos([*(Difference(one, one - 9, one + 9) for one in points), UNKNOWN])
    low, high = stats.t.interval(0.95, len(points) - 1, np.mean(points), stats.sem(points))
    assert found == pytest.approx((np.mean(points), low, high))


def test_few_silos_are_judged_by_their_own_intervals() -> None:
    # Half widths 3 and 4 below, 6 and 8 above: sqrt(9 + 16) / 2 and sqrt(36 + 64) / 2.
    found = over_silos([Difference(1.0, -2.0, 7.0), Difference(3.0, -1.0, 11.0)])
    assert found == pytest.approx((2.0, 2.0 - 2.5, 2.0 + 5.0))
    assert all(map(math.isnan, over_silos([UNKNOWN])))


def test_a_silo_is_compared_on_the_same_examples() -> None:
    right = Said(np.array([True] * 30 + [False] * 10), np.zeros(40))
    wrong = Said(np.array([False] * 40), np.zeros(40))
    found = at_silo(right, wrong, folds=1)
    assert found.points == 75 and found.low > 0 and at_silo(wrong, right, 1).points == -75
    assert (score_at(right), score_at(wrong)) == (75.0, 0.0)
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert score_at(Said(np.array([0.5, -0.5, 0.5, -0.5]), truth)) == pytest.approx(100 * (1 - 0.25 / 1.25))


@pytest.mark.parametrize(
    ("gain", "counts", "expected"),
    [
        (Difference(3, 1, 5), Counts(5, 2, 5, 0), "yes"),
        (Difference(1, -1, 3), Counts(0, 0, 12, 0), "level"),
        (Difference(1, -1, 3), Counts(1, 0, 11, 0), "level"),  # one of twelve: chance gives that
        (Difference(1, -1, 3), Counts(6, 6, 0, 0), "some"),
        (Difference(-3, -5, -1), Counts(0, 4, 8, 0), "no"),
        (UNKNOWN, Counts(0, 0, 0, 4), "level"),
    ],
)
def test_who_is_told_to_join(gain: Difference, counts: Counts, expected: str) -> None:
    assert join_of(gain, counts) == expected


def test_what_is_level_is_said_as_level() -> None:
    assert "it is level with fedavg here (+0.3 points, -0.5 to 1.1)" in reason_of(
        "accord", "fedavg", Difference(0.3, -0.5, 1.1)
    )
    assert "it does better than accord here" in reason_of("fedavg", "accord", Difference(2, 1, 3))


def test_what_cannot_be_advised_is_refused() -> None:
    with pytest.raises(amity.InputError, match="at least 2 silos"):
        amity.advise(RUN, federation(False))
    with pytest.raises(
        amity.InputError, match=r"at least 4 training examples at each silo, got fewer at 'silo-0' \(3\)"
    ):
        amity.advise(RUN, federation(False, False, size=3))
    wrongs: list[dict[str, Any]] = [{"rounds": 0}, {"folds": 5}, {"budget": 0}]
    for wrong in wrongs:
        with pytest.raises(amity.InputError, match="folds from 1 to 4"):
            amity.advise(RUN, federation(False, False), **wrong)
    with pytest.raises(amity.InputError, match=r"needs an amity\.Run"):
        amity.advise("digits")  # type: ignore[arg-type]
