"""Endings between silos elsewhere: the simulator's models, whoever is killed on the way, and a verdict after them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import killed, letter, trial_of
from safetensors.torch import load_file

import amity
from amity.federation.messages import Train
from amity.site.results import finish

ENDED: dict[str, Any] = {"ending": "auto", "rounds": 2}


@pytest.mark.parametrize("method", ["fedavg", "fedamp", "accord", "scaffold"])
def test_models_are_the_simulators(tmp_path: Path, method: str) -> None:
    trial = trial_of(tmp_path, method, safe=True, **ENDED)
    with trial.network() as network:
        trial.conduct(network)
        assert network.rounds_sent(Train, trial.names[0]) == [1, 2, 3]
    assert trial.phase == "ended", trial.status["words"]
    trial.check_models()
    last = trial.record.lines[-1]
    assert last["ending"] and last["bytes_up"] == 0 and "holds" not in last


def test_a_server_that_ends_in_the_ending_goes_on(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "accord", **ENDED)
    with trial.network() as network:
        number, crashes = 0, 0
        while killed(trial, network, letter(number)):
            crashes += 1
            number = 9 * crashes  # further than it has come before
        assert crashes > 2
        assert sorted(set(network.rounds_sent(Train, trial.names[0]))) == [1, 2, 3]
    assert trial.phase == "ended", trial.status["words"]
    trial.check_models()


def test_the_verdict_compares_with_a_model_that_was_trained_to_its_own_end(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "accord", **ENDED)
    name = trial.names[1]
    with trial.network() as network:
        trial.conduct(network)
    verdict = finish(trial.site(name), trial.contract.name)
    assert verdict["alone_round"] == verdict["round"] == 3
    alone = amity.run(replace(trial.run, method="separate", engine="loop"), trial.silos)
    found = load_file(trial.site(name).run(trial.contract.name) / "alone.safetensors")
    wanted = alone.model(name).state_dict()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
