"""A server that ends at any letter, or finds its last checkpoint damaged, goes on where it was: nothing is lost."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from networks import Killed, Trial, killed, letter, trial_of

import amity
from amity.federation.messages import Train
from amity.hub.board import Board
from amity.hub.recording import Journal

KEYS = ("accuracy", "took_part", "dropped", "bytes_up", "bytes_down", "bytes_eval", "epochs", "warnings")

Turns = Counter[tuple[str, int]]


def check_whole(trial: Trial, wanted: amity.Result, turns: Turns) -> None:
    """Every silo has its model, and nothing in the record or on the board tells of the crash."""
    rounds = trial.run.rounds
    assert trial.phase == "ended", trial.status["words"]
    trial.check_models(wanted)
    assert [line["round"] for line in trial.record.lines] == list(range(1, rounds + 1))
    for line, same in zip(trial.record.lines, wanted.lines, strict=True):
        for key in KEYS:
            assert line[key] == same[key], key  # type: ignore[literal-required]
    assert set(trial.steps.values()) == {"finished"} and trial.status["round"] == rounds
    assert all(silo["rounds"] == silo["round"] == rounds for silo in trial.status["silos"].values())
    assert len(turns) == 3 * rounds and set(turns.values()) == {1}, turns


def check_every_letter(tmp_path: Path, turns: Turns, method: str, first: int = 0, step: int = 1, **options: Any) -> int:
    """Let the server of a run end at each of its letters in turn, or at every so many; the first that there is not."""
    terms = {"least_rounds": 3}
    wanted = trial_of(tmp_path / "simulated", method, terms=terms, **options).simulated()
    number, ended = first, True
    while ended:
        turns.clear()
        trial = trial_of(tmp_path / str(number), method, terms=terms, **options)
        with trial.network() as network:
            ended = killed(trial, network, letter(number))
            if ended:
                trial.conduct(network)
        check_whole(trial, wanted, turns)
        shutil.rmtree(tmp_path / str(number))
        number += step
    return number - step


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])  # 4: every kind, to each silo in turn
@pytest.mark.parametrize("method", ["scaffold", pytest.param("fedavg-ft", marks=pytest.mark.slow)])
def test_a_server_that_ends_at_any_letter_goes_on_where_it_was(
    method: str, step: int, tmp_path: Path, turns: Turns
) -> None:
    # Describe, Propose, Hello; Train, Commit, Measure in three rounds; Keep, Finish: each to three silos
    letters = 3 * (3 + 3 * 3 + 2)
    assert letters <= check_every_letter(tmp_path, turns, method, step=step) < letters + step


@pytest.mark.slow
def test_so_it_does_where_validation_data_choose_the_round(tmp_path: Path, turns: Turns) -> None:
    """A silo that has not heard that this is the round to keep is told so by the server that comes back."""
    letters = check_every_letter(tmp_path, turns, "fedamp", first=9 + 6, val_fraction=0.3, lr=0.1)
    assert letters == 3 * (3 + 3 * 3 + 1) + 2 * 3  # two rounds are kept, the last is not


@pytest.mark.parametrize("place", [(Journal, "add"), (Board, "took_part"), (Journal, "finish")], ids=lambda at: at[1])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_server_that_ends_between_two_files_goes_on_where_it_was(
    place: tuple[type, str], done: bool, tmp_path: Path, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(tmp_path, "scaffold", terms={"least_rounds": 3})
    of, name = place
    real, calls = getattr(of, name), [0]

    def end(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] != (1 if name == "finish" else 2):
            return real(*given, **named)
        if done:
            real(*given, **named)
        raise Killed

    wanted = trial.simulated()
    turns.clear()
    with trial.network() as network:
        with monkeypatch.context() as patch:
            patch.setattr(of, name, end)
            assert killed(trial, network, lambda name, message: False)
        trial.conduct(network)
    check_whole(trial, wanted, turns)


@pytest.mark.parametrize("file", ["state.safetensors", "round.json"])
@pytest.mark.parametrize("number", [1, 4, 7], ids=["committing", "measuring", "training"])
def test_a_server_whose_newest_checkpoint_is_damaged_goes_on_from_the_one_before(
    file: str, number: int, tmp_path: Path, turns: Turns
) -> None:
    """It ends after round 2 was saved, or in round 3; round 2 is taken back everywhere, and nobody trains it again."""
    trial = trial_of(tmp_path, "scaffold", terms={"least_rounds": 3})
    wanted = trial.simulated()
    turns.clear()
    with trial.network() as network:
        # 9 letters before the rounds, 9 in each, and the second round's Commit is its fourth.
        assert killed(trial, network, letter(9 + 9 + 3 + number))
        damaged = trial.folder / "server" / "current" / file
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0xFF
        damaged.write_bytes(content)
        trial.conduct(network)
    if turns["silo-00", 3] == 2:  # it had begun what comes after what was lost
        turns["silo-00", 3] = 1
    check_whole(trial, wanted, turns)
    notes = [event.words for event in trial.record.events if event.what == "note"]
    told = [words for words in notes if "went on from round 1, saved before it" in words]
    assert len(told) == 1 and len(notes) == 2  # the other one says that the run goes on


def test_a_server_without_any_checkpoint_that_is_whole_says_so(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "scaffold")
    with trial.network() as network:
        assert killed(trial, network, lambda name, message: isinstance(message, Train) and message.round == 3)
        for which in ("current", "old"):
            (trial.folder / "server" / which / "round.json").write_text("{")
        trial.conduct(network)
    assert trial.phase == "failed" and "no older one is whole: bring back a copy" in trial.status["words"]


def test_a_record_that_does_not_go_with_the_checkpoint_is_not_written_to(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, "scaffold")
    with trial.network() as network:
        assert killed(trial, network, lambda name, message: isinstance(message, Train) and message.round == 3)
        shutil.rmtree(trial.folder / "record")
        trial.conduct(network)
    assert trial.phase == "failed" and "has 0 rounds, the server goes on from round 2" in trial.status["words"]
