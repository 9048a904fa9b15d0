"""A server that ends at any letter, or finds its last checkpoint damaged, goes on where it was: nothing is lost."""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from pathlib import Path

import pytest
from networks import Killed, MemoryNetwork, Trial, trial_of

import amity
from amity.federation.messages import Message
from amity.federation.silo import SiloSide


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for: what ends here is the server, never the machine."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """How often each silo has trained each round."""
    seen: Counter[tuple[str, int]] = Counter()
    train = SiloSide.train

    def counted(side: SiloSide, round: int, down: amity.State) -> amity.State:
        seen[side.name, round] += 1
        return train(side, round, down)

    monkeypatch.setattr(SiloSide, "train", counted)
    return seen


def killed_at(trial: Trial, network: MemoryNetwork, letter: int) -> bool:
    """Conduct a run whose server ends when it is about to send this letter; False where it has ended before."""
    left = [letter]

    def count(name: str, message: Message) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    network.before = count
    try:
        trial.conduct(network)
    except Killed:
        return True
    finally:
        network.before = lambda name, message: None
        gc.collect()  # and with the process go the locks that it holds
    return False


def check_whole(trial: Trial, wanted: amity.Result, turns: Counter[tuple[str, int]]) -> None:
    """Every silo has its model, and nothing in the record or on the board tells of the crash."""
    assert trial.status["phase"] == "ended", trial.status["words"]
    trial.check_models(wanted)
    lines = trial.record.lines
    assert [line["round"] for line in lines] == [1, 2, 3]
    for line, same in zip(lines, wanted.lines, strict=True):
        for key in ("accuracy", "took_part", "bytes_up", "bytes_down", "bytes_eval", "epochs"):
            assert line[key] == same[key], key
    assert set(trial.steps.values()) == {"finished"} and trial.status["round"] == 3
    assert all(silo["rounds"] == 3 and silo["round"] == 3 for silo in trial.status["silos"].values())
    assert set(turns.values()) == {1}, turns


@pytest.mark.parametrize("method", ["scaffold", "fedavg-ft"])
def test_a_server_that_ends_at_any_letter_goes_on_where_it_was(
    method: str, tmp_path: Path, turns: Counter[tuple[str, int]]
) -> None:
    first = trial_of(tmp_path / "first", method, terms={"least_rounds": 3})
    wanted = first.simulated()
    letter, ended = 0, True
    while ended:
        turns.clear()
        trial = trial_of(tmp_path / str(letter), method, terms={"least_rounds": 3})
        with trial.network() as network:
            ended = killed_at(trial, network, letter)
            if ended:
                trial.conduct(network)
        check_whole(trial, wanted, turns)
        shutil.rmtree(tmp_path / str(letter))
        letter += 1
    assert letter > 3 * 15
