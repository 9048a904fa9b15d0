"""The choice among trials, which `amity reproduce` and `amity tune` share."""

from __future__ import annotations

import math
from typing import NamedTuple

from amity.trials import Chosen, choose, with_option


class Seen(NamedTuple):
    validation: float
    diverged: str = ""


def test_the_best_on_validation_data_is_chosen_the_first_of_equals() -> None:
    trials = [("a", Seen(70.0)), ("b", Seen(80.0)), ("c", Seen(80.0)), ("d", Seen(math.nan))]
    assert choose(trials, lambda value: []) == Chosen("b")


def test_a_trial_that_diverges_comes_last_whatever_it_had_reached() -> None:
    trials = [("a", Seen(99.0, "diverged in round 2")), ("b", Seen(10.0))]
    assert choose(trials, lambda value: []).value == "b"


def test_one_that_diverges_later_gives_way_to_the_next_unless_all_do() -> None:
    trials = [("a", Seen(70.0)), ("b", Seen(80.0)), ("c", Seen(90.0))]
    later = {"c": [Seen(90.0), Seen(1.0, "diverged in round 9")], "b": [Seen(80.0)]}
    assert choose(trials, lambda value: later.get(value, [])) == Chosen("b", (("c", "diverged in round 9"),))
    lost = Seen(0.0, "diverged")
    assert choose(trials, lambda value: [lost]).value == "c"
    assert [value for value, _ in choose(trials, lambda value: [lost]).passed_over] == ["c", "b", "a"]


def test_an_option_is_set_where_it_belongs_and_nothing_is_changed() -> None:
    options = {"lr": 1.0, "set": {"sigma": 2.0}}
    assert with_option(options, "lr", 3.0) == {"lr": 3.0, "set": {"sigma": 2.0}}
    assert with_option(options, "set.mu", 3.0) == {"lr": 1.0, "set": {"sigma": 2.0, "mu": 3.0}}
    assert options == {"lr": 1.0, "set": {"sigma": 2.0}}
