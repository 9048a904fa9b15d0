"""A federation over mutual TLS gives the models and the scores of a simulation, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from safetensors.torch import load_file

import amity
from amity.config.run import Run
from amity.engines.flare.trial import Trial, names_of, renamed
from amity.prepare import silos_of
from amity.record import read

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare: equality")]  # one federation for all

METHODS = ("apple", "fedavg", "fedamp", "heurfedamp", "ditto", "fedavg-ft", "twin")
"""What is theirs alone is on both sides of the wire, where the law `carriers` compares all methods bit for bit.

That the wire itself changes nothing is in the fast suite too: test_kills.py compares scaffold, over the same network.
"""

SAME = ("mean", "worst", "val", "accuracy", "loss", "bytes_up", "bytes_down", "bytes_eval", "took_part")


def run_of(method: str) -> Run:
    return Run(method, data="digits", clients=3, rounds=3, epochs=1, engine="loop", model="mlp")


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    silos = renamed(silos_of(run_of("fedavg")), names_of(3))
    with Trial(tmp_path_factory.mktemp("equality") / "trial", silos) as trial:
        trial.start("server", *trial.names)
        yield trial


@pytest.mark.parametrize("method", METHODS)
def test_models_and_scores_are_those_of_a_simulation(trial: Trial, method: str) -> None:
    run = trial.submit(run_of(method), method)
    status = trial.wait(run, 240.0)
    assert status["phase"] == "ended", status["words"]
    expected = amity.run(run_of(method), trial.silos)
    for name in trial.names:
        found, wanted = load_file(trial.results(name, method) / "model.safetensors"), expected.model(name).state_dict()
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[key], value) for key, value in wanted.items()), name
    record = read(run.folder / "record")
    for found_line, line in zip(record.lines, expected.lines, strict=True):
        assert {key: found_line.get(key) for key in SAME} == {key: line.get(key) for key in SAME}
    assert status["jobs"] == 1, "nothing went wrong on the way"
