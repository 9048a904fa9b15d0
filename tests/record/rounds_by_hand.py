"""Rounds made by hand: three silos, four test examples each, the right answers chosen."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from amity.contract import Score, State
from amity.federation.events import Event
from amity.federation.messages import measured
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved
from amity.record import Line, Recorder

SILOS = ["north", "A/B", ".."]
CONFIG: dict[str, Any] = {"method": "fedamp", "rounds": 4, "workers": 2, "set": {"sigma": 10.0}, "lr": None}
FACTS: dict[str, Any] = {
    "method": "fedamp",
    "data": "digits",
    "setting": "practical",
    "model": "mlp",
    "clients": 3,
    "seed": 0,
    "engine": "simulate",
    "version": "0.1",
    "groups": [0, 0, 1],
}
SUMMARY_KEYS = (
    "method data setting model clients rounds seed score delivered delivered_round chosen_by worst spread per_client "
    "cloud last bmta best_on_test best_on_test_round best_on_test_per_client metrics seconds "
    "bytes_up bytes_down bytes_eval block_score engine version"
).split()
LINE_KEYS = (
    "round mean worst val metrics accuracy loss train_loss per_silo bytes_up bytes_down bytes_eval seconds executed "
    "took_part dropped epochs collaborators warnings"
).split()
# Right answers of four, per round and silo: means 50, 75, 75, 58.33 percent. Round 2 attains the best first.
VAL = {1: 10.0, 2: 20.0, 3: 30.0, 4: 30.0}  # on validation data, of every silo; round 3 attains the best first
RIGHT = {1: (2, 2, 2), 2: (4, 3, 2), 3: (3, 3, 3), 4: (1, 3, 3)}


def progress_at(round: int) -> Progress:
    """The server after a round."""
    return _federation(round)[0]


def saved_at(round: int, chosen: int | None = None) -> Saved:
    """The federation after a round; `chosen`: the round to be delivered so far, by default as VAL has it."""
    best = max(range(1, round + 1), key=lambda number: VAL[number]) if chosen is None else chosen
    progress, states = _federation(round)
    if best == round:
        return Saved(progress, states, progress)
    return Saved(progress, states, *_federation(best))


def _federation(round: int) -> tuple[Progress, list[State]]:
    values = torch.arange(6.0).reshape(3, 2) + round
    server = {
        "params": values,
        "row": values[1],
        "all": torch.ones(1).expand(5),
        "turned": values.T,
        "step": torch.tensor(round),
        "none": torch.empty(0),
        "flags": torch.tensor([True, False]),
    }
    clients = [{"params": values[i], "a/b": values[0]} for i in range(2)]
    return Progress(round, server), [*clients, {}]


def scores_of(number: int) -> list[Score]:
    """Every silo's score after a round."""
    aurocs = (10.0 * number, math.nan, 80.0)
    return [
        Score(torch.arange(4) < count, 2.0 * number, {"auroc": auroc}, VAL[number])
        for count, auroc in zip(RIGHT[number], aurocs, strict=True)
    ]


def a_round(number: int, *, weights: bool = True, scores: Sequence[Score] | None = None) -> Round:
    """What the server reports of a round."""
    matrix = torch.tensor([[0.5, 0.4, 0.1], [math.nan] * 3, [0.1, 0.1, 0.8]])
    return Round(
        round=number,
        scores=[measured("", number, silo, score) for silo, score in enumerate(scores or scores_of(number))],
        took_part=[0, 2],
        dropped={1: "upload not finite"},
        epochs={0: 5, 2: 3},
        bytes_up=10,
        bytes_down=20,
        bytes_eval=3,
        seconds={"local": 0.5, "evaluate": 0.25},
        weights=matrix * number if weights else None,
        progress=progress_at(number),
        warnings=["slow"] if number == 2 else [],
    )


def add_round(recorder: Recorder, number: int, *, weights: bool = True, scores: Sequence[Score] | None = None) -> Line:
    """Record a round, with what the silos show of their test examples."""
    each = [score.each for score in scores or scores_of(number)]
    return recorder.add(a_round(number, weights=weights, scores=scores), each)


def models() -> list[tuple[str, dict[str, torch.Tensor]]]:
    shared = torch.arange(4.0)
    return [(silo, {"weight": shared, "tied": shared, "turned": shared.reshape(2, 2).T}) for silo in SILOS]


def events_of(number: int) -> list[Event]:
    """What is told of a round until it is recorded; the time is made up, so that runs can be compared."""
    return [
        Event("round", number, words="2 silos", time=number + 0.25),
        Event("trained", number, "A/B", bytes=0, seconds=0.5, done=1, total=2, time=number + 0.5),
    ]


def record_rounds(recorder: Recorder, numbers: Sequence[int], *, weights: bool = True) -> None:
    for number in numbers:
        for event in events_of(number):
            recorder.listen(event)
        add_round(recorder, number, weights=weights)
        recorder.listen(Event("recorded", number, time=number + 0.75))
        recorder.checkpoint(saved_at(number))


HELD: dict[str, Any] = {"group": None, "train": [1, 2], "val": None, "test": [3, 4]}
MANIFEST: dict[str, Any] = {"classes": 2, "notes": ["a, b"], "silos": [{"name": silo, **HELD} for silo in SILOS]}


def whole(path: Path, *, weights: bool = True) -> Recorder:
    recorder = Recorder.create(path, CONFIG, SILOS, FACTS, manifest=MANIFEST)
    record_rounds(recorder, [1, 2, 3, 4], weights=weights)
    recorder.finish(models())
    return recorder


def strictly(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def unchecked(text: str) -> Any:
    """A line of rounds.jsonl without the check at its end."""
    line = strictly(text)
    assert list(line)[-1] == "check"
    del line["check"]
    return line


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def assert_same(one: Saved, other: Saved) -> None:
    """Both are of the same round, with the same states, and of the same round to be delivered."""
    assert_same_server(one.progress, other.progress)
    _assert_same_tensors(one.states, other.states)
    assert (one.kept is None) == (other.kept is None)
    if one.kept is not None and other.kept is not None:
        assert_same_server(one.kept, other.kept)
    _assert_same_tensors(one.kept_states, other.kept_states)


def assert_same_server(one: Progress, other: Progress) -> None:
    """The server is the same after both."""
    assert one.round == other.round
    _assert_same_tensors([one.server], [other.server])


def _assert_same_tensors(ones: Sequence[State], others: Sequence[State]) -> None:
    assert len(ones) == len(others)
    for a, b in zip(ones, others, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            assert torch.equal(a[key], b[key]), key
