"""The view of runs: every key with its type, no NaN, of runs that are finished, under way, diverged or alone."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report.reported_runs import EVIL, MANIFEST, SILOS, a_run

import amity
from amity.cli import plan
from amity.config.run import Run
from amity.errors import InputError
from amity.federation.messages import measured
from amity.federation.reports import Progress, Round
from amity.record import Record, Recorder, read
from amity.record.shapes import fits, shape_of
from amity.report.contents import VERSION, View
from amity.report.view import named_runs, to_json, view_of, write_view
from amity.report.view_ending import delivered_by, ending_of
from amity.report.view_weights import unpacked
from amity.silo_data import Score

SHAPE = shape_of(View)


def checked(records: list[Record], **how: Any) -> View:
    """The view of these runs, as a page gets it: of the types that it promises, and without NaN."""
    view = view_of(records, **how)
    text = to_json(view)
    again: View = json.loads(text, parse_constant=lambda word: pytest.fail(f"JSON has no {word}"))
    assert fits(again, SHAPE)
    places = range(len(view["silos"]))
    for run in again["runs"]:
        course, rounds = run["course"], len(run["course"]["rounds"])
        assert all(len(values) == rounds for key, values in course.items())  # type: ignore[arg-type]
        assert all(len(scores) in (0, len(places)) for scores in course["silos"])
        if run["weights"] is not None:
            assert sorted(run["weights"]["given"]) == sorted(run["weights"]["clustered"]) == list(places)
    assert [place for method in again["methods"] for place in method["runs"]] == list(range(len(again["runs"])))
    return again


def test_a_view_has_what_records_have(records: list[Record]) -> None:
    view = checked(records, title="ours")
    assert view["version"] == VERSION and view["title"] == "ours" and view["live"] is None
    assert view["score"] == {"key": "accuracy", "title": "accuracy", "unit": "%", "better": "higher"}
    assert [silo["name"] for silo in view["silos"]] == SILOS and [silo["group"] for silo in view["silos"]] == [
        1,
        0,
        1,
        0,
    ]
    separate, fedamp, apple = view["runs"]
    assert separate["course"]["silos"] == [[50.0] * 4, [60.0] * 4] and separate["delivered"] == [60.0] * 4
    assert separate["finished"] and separate["delivered_round"] == 2 and separate["weights"] is None
    assert fedamp["course"]["mean"] == [80.0, 77.5] and fedamp["course"]["worst"] == [50.0, 70.0]
    assert fedamp["course"]["bytes_up"] == [1_000_000] * 2 and fedamp["course"]["took_part"] == [[0, 1, 2, 3]] * 2
    assert not apple["finished"] and apple["asked"] == 1 and apple["alarms"][0]["title"] == "unfinished"
    assert [method["name"] for method in view["methods"]] == [name for name, _ in named_runs_of(records)]
    best = [method for method in view["methods"] if method["best"]]
    assert [method["name"] for method in best] == ["fedamp"] and best[0]["numbers"]["delivered"] == {
        "mean": 77.5,
        "deviation": None,
    }
    assert view["methods"][0]["reference"] and not view["methods"][1]["reference"]
    assert set(view["table"]) <= set(view["methods"][0]["numbers"]) and view["table"]["bytes_up"] == "MB up"


def named_runs_of(records: list[Record]) -> list[tuple[str, Record]]:
    from amity.report.series import series_of

    return named_runs(series_of(records))


def test_weights_of_a_view_are_those_of_the_run(records: list[Record]) -> None:
    view = checked(records)
    weights = view["runs"][1]["weights"]
    assert weights is not None and weights["rounds"] == [1, 2] and weights["given"] == [1, 3, 0, 2]
    found = unpacked(weights, 4)
    assert found[1] == pytest.approx(np.array(records[1].weights[2]), abs=1e-4, nan_ok=True)


def test_what_silos_hold_comes_from_the_manifest(tmp_path: Path) -> None:
    view = checked([a_run(tmp_path / "one", "fedamp", [(9, 9, 9, 5)], manifest=MANIFEST)])
    assert view["classes"] == ["0", "1", "2"] and view["title"] == "fedamp"
    first, evil, third, without = view["silos"]
    assert (first["train"], first["val"], first["test"], first["held"]) == (5, None, 3, [4, 0, 1])
    assert (evil["train"], evil["val"]) == (17, 1) and third["held"] == [0, 25, 0]
    assert without["train"] is None and view["setting"] == EVIL
    assert view["worth"] == [] and "amity run separate" in view["why_no_worth"]


def test_a_run_that_has_no_round_yet(tmp_path: Path) -> None:
    facts = dict(
        method="fedamp", data="d", setting="s", model="mlp", clients=4, seed=0, engine="simulate", version="0.1"
    )
    Recorder.create(tmp_path / "run", {"rounds": 3, "method": "fedamp"}, SILOS, facts).close()
    view = checked([read(tmp_path / "run")])
    (run,) = view["runs"]
    assert run["course"]["rounds"] == [] and run["delivered"] == [] and not run["finished"] and run["asked"] == 3
    assert view["methods"][0]["numbers"]["delivered"] is None


def test_a_run_that_diverged(tmp_path: Path) -> None:
    facts = dict(
        method="fedamp", data="d", setting="s", model="mlp", clients=2, seed=0, engine="simulate", version="0.1"
    )
    recorder = Recorder.create(tmp_path / "run", {"rounds": 1}, ["a", "b"], {**facts, "score": "r2"})
    scores = [
        Score(torch.tensor([1.0, -1.0]), math.inf, {"r2": -math.inf, "rmse": math.inf}),
        Score(torch.zeros(2), 0.0, {"r2": 100.0, "rmse": 0.0}),
    ]
    each = [measured("", 1, silo, score) for silo, score in enumerate(scores)]
    matrix = torch.full((2, 2), math.nan)
    recorder.add(Round(1, each, [0, 1], {}, {}, 0, 0, 0, {}, matrix, Progress(1, {}), []), [s.each for s in scores])
    recorder.finish(("a", {}) for _ in range(0))
    view = checked([read(tmp_path / "run")])
    assert view["runs"][0]["course"]["silos"][0][0] is None and view["score"]["key"] == "r2"
    assert view["classes"] is None


def test_one_silo(tmp_path: Path) -> None:
    x, y = torch.rand(40, 3), torch.tensor([0, 1] * 20)
    silos = amity.own_silos({"only": (x, y)})
    result = amity.run(amity.Run("fedamp", rounds=1, epochs=1, model="mlr"), silos, out=tmp_path / "run", alone=True)
    assert result.alone is not None
    view = checked([result.record, result.alone.record])
    assert view["title"] == "fedamp" and len(view["worth"][0]["silos"]) == 1
    assert "only silo" in view["worth"][0]["words"] and "own verdict" in view["worth"][0]["chance"]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Record]]:
    """A method and every silo alone, on real data, with two seeds."""
    run = amity.Run("heurfedamp", data="digits", clients=4, rounds=2, epochs=1, model="mlr", settings={"sigma": 20.0})
    found = amity.run(run, seeds=[0, 1], alone=True, out=tmp_path_factory.mktemp("digits"))
    results = list(found.results.values())
    yield [*(one.record for one in results), *(one.alone.record for one in results if one.alone is not None)]


def test_seeds_are_one_method_and_several_runs(digits: list[Record]) -> None:
    view = checked(digits)
    assert [method["seeds"] for method in view["methods"]] == [[0, 1], [0, 1]]
    assert [run["name"] for run in view["runs"]] == [
        *("heurfedamp, seed 0", "heurfedamp, seed 1", "separate, seed 0", "separate, seed 1")
    ]
    assert any("dealt anew" in note for note in view["notes"]) and view["title"] == "heurfedamp"
    assert view["runs"][0]["events"][-1]["words"] == "the run is finished"
    assert any("4 of 4 returned" in event["words"] for event in view["runs"][0]["events"])


def test_the_command_repeats_the_run(digits: list[Record]) -> None:
    view = checked(digits)
    words = shlex.split(view["runs"][1]["command"])
    assert words[:3] == ["amity", "run", "heurfedamp"] and "--seed" in words
    flags, settings = {}, []
    for key, value in zip(words[3::2], words[4::2], strict=True):
        if key == "--set":
            settings.append(value)
        else:
            flags[key.removeprefix("--").replace("-", "_")] = value
    (run,) = plan.runs_of(["heurfedamp"], flags, {}, settings)
    assert isinstance(run, Run) and run.table() == {**run.table(), **digits[1].config}
    default = amity.Run()
    assert not any(getattr(default, key) == value for key, value in flags.items())


def test_python_silos_and_models_are_named_behind_the_command(tmp_path: Path) -> None:
    x, y = torch.rand(20, 3), torch.tensor([0, 1] * 10)
    silos = amity.own_silos({"a": (x, y), "b": (x, y)})
    result = amity.run(amity.Run("fedavg", rounds=1), silos, model=lambda: torch.nn.Linear(3, 2), out=tmp_path / "run")
    view = checked([result.record])
    assert view["runs"][0]["command"].endswith("# with the silos and the model that Python has given")


def test_a_large_view_is_fast_and_small(tmp_path: Path) -> None:
    """100 silos, 90 rounds, weights in every round: five such methods must fit into 15 MB."""
    silos = [f"silo-{number:02}" for number in range(100)]
    facts = dict(
        method="fedamp", data="d", setting="s", model="mlp", clients=100, seed=0, engine="simulate", version="0.1"
    )
    recorder = Recorder.create(tmp_path / "run", {"rounds": 90}, silos, facts)
    draw = torch.Generator().manual_seed(0)
    each = [torch.rand(20, generator=draw) < 0.8 for _ in silos]
    for number in range(1, 91):
        scores = [measured("", number, place, Score(right, 1.0, {})) for place, right in enumerate(each)]
        matrix = torch.rand(100, 100, generator=draw)
        recorder.add(
            Round(number, scores, list(range(100)), {}, {}, 9, 9, 9, {}, matrix, Progress(number, {}), []), each
        )
    recorder.interrupted()
    record = read(tmp_path / "run")
    _ = record.weights, record.events  # reading and verifying is the reader's affair
    began = time.process_time()
    text = to_json(view_of([record]))
    assert time.process_time() - began < 2 and len(text) < 3_000_000
    many = [record for _ in range(5)]
    assert len(to_json(view_of(many))) < 14_000_000


def test_a_view_is_written_to_a_file(tmp_path: Path, records: list[Record]) -> None:
    path = write_view(view_of(records), tmp_path / "new" / "view.json")
    assert fits(json.loads(path.read_text()), SHAPE)
    with pytest.raises(InputError, match="which is a directory"):
        write_view(view_of(records), tmp_path)
    with pytest.raises(InputError, match="at least one run"):
        view_of([])


def test_an_ending_is_told_in_words_and_by_silo(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 24, 3)).astype(np.float32)
    y = (x[:, :, 0] > 0).astype(np.int64)
    silos = amity.own_silos({name: (x[i, :16], y[i, :16], x[i, 16:], y[i, 16:]) for i, name in enumerate("abcd")})
    run = Run("fedavg", model="mlr", rounds=2, epochs=1, ending=3, workers=1)
    amity.run(run, silos, out=tmp_path / "run", alone=True)
    view = checked([read(tmp_path / "run"), read(tmp_path / "run" / "alone")])
    ended, alone = view["runs"]
    assert ended["finished"] and ended["asked"] == len(ended["course"]["rounds"]) == 3
    found = ended["ending"]
    assert found is not None and found["round"] == 3 and found["alone"] == 0 and set(found["silos"]) == set("abcd")
    assert found["words"].endswith("that is the ending.")
    assert {row["delivers"] for row in view["worth"][0]["silos"]} == {"together, 3 epochs"}


def test_who_stays_with_the_model_trained_alone_is_told(records: list[Record]) -> None:
    class Ended:
        def __init__(self, *words: str) -> None:
            held = dict(zip(SILOS, words, strict=True))
            self.lines = [{"round": 1}, {"round": 2, "ending": True, "holds": held}]

    one: Any = Ended("alone, 40 epochs", *["together, 3 epochs"] * 3)
    other: Any = Ended(*["together, 5 epochs"] * 4)
    found = ending_of(one)
    assert found is not None and found["alone"] == 1
    assert "1 of 4 silos delivers the model that it has trained without the others" in found["words"]
    assert delivered_by("a", [one]) == "alone, 40 epochs" and delivered_by("a", [one, other]) == "alone in 1 of 2 seeds"
    assert delivered_by("c", [one, other]) == "together in all 2 seeds"
    assert ending_of(records[0]) is None and delivered_by("a", records) == ""
