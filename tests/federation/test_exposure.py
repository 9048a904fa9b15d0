"""A silo that is sent little but one other silo's model: the record says so."""

import pytest
import torch
from small import silos

import amity
from amity.contract import Download
from amity.federation.exposure import Shown, shown, warning


def test_who_is_shown_to_whom() -> None:
    weights = torch.tensor([[0.50, 0.46, 0.04, 0.0], [0.0, 0.4, 0.3, 0.3], [0.005, 0.0, 0.98, 0.015]])
    assert shown(weights, [0, 1, 2]) == [Shown(0, 1)]  # nine tenths; evenly; three quarters of little
    assert shown(torch.tensor([[1 - 1e-8, 1e-8]]), [0]) == []  # lost in rounding: nothing came from the other
    assert shown(torch.tensor([[1.0, 0.0]]), [0]) == []
    assert shown(torch.tensor([[1.5, -0.5, 0.01]]), [0]) == [Shown(0, 1)]  # a negative weight shows as much


def test_one_line_says_it() -> None:
    down = Download({}, {}, torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))
    (words,) = warning(down, [0, 1], ["ash", "birch", "cedar"])
    assert "ash" in words and "birch's model" in words and "others" in words and "--min-mix" in words
    assert warning(Download({}, {}), [0], ["ash"]) == []


@pytest.mark.parametrize(("clients", "told"), [(2, True), (5, False)])
def test_a_run_of_two_says_it(clients: int, told: bool) -> None:
    """With equal weights of five nobody is shown."""
    named = {one.name: (*one.train, *one.test) for one in silos(clients)}
    run = amity.Run("heurfedamp", rounds=2, epochs=1, model="mlr", settings={"sigma": 1e-6, "self_weight": 0.2})
    warned = [words for line in amity.run(run, amity.own_silos(named)).lines for words in line["warnings"]]
    assert any("can work it out" in words for words in warned) is told
