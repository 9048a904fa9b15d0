"""What a recorder writes of rounds that were made by hand."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from record.rounds_by_hand import (
    CONFIG,
    FACTS,
    HELD,
    LINE_KEYS,
    MANIFEST,
    SILOS,
    SUMMARY_KEYS,
    a_round,
    add_round,
    contents,
    models,
    record_rounds,
    saved_at,
    strictly,
    unchecked,
    whole,
)
from safetensors.torch import load_file

from amity.contract import Score
from amity.federation.reports import Progress
from amity.record import Recorder, read


def test_a_finished_run_holds_these_files(tmp_path: Path) -> None:
    whole(tmp_path / "run")
    assert sorted(contents(tmp_path / "run")) == sorted(
        [
            *("config.toml", "facts.json", "manifest.json", "rounds.jsonl", "weights.npz", "summary.json"),
            "events.jsonl",
            *("checksums.json", "checkpoint/checksums.json"),
            *(f"models/{silo}.safetensors" for silo in ("north", "A%2FB", "%2E%2E")),
            *(f"predictions/{silo}.npz" for silo in ("north", "A%2FB", "%2E%2E")),
            *(f"checkpoint/{part}.safetensors" for part in ("server", "clients", "scores")),
            *(f"checkpoint/chosen-{part}.safetensors" for part in ("server", "clients")),  # of round 3
            "checkpoint/progress.json",
        ]
    )


def test_summary_by_hand(tmp_path: Path) -> None:
    recorder = whole(tmp_path)
    summary = strictly((tmp_path / "summary.json").read_text())
    assert list(summary) == SUMMARY_KEYS
    seconds = summary.pop("seconds")
    assert 0 < seconds <= recorder.seconds
    assert summary == {
        **{key: value for key, value in FACTS.items() if key != "groups"},
        "rounds": 4,
        "score": "accuracy",
        "delivered": 75.0,
        "delivered_round": 3,
        "chosen_by": "validation",
        "worst": 75.0,
        "spread": 0.0,
        "per_client": [75.0, 75.0, 75.0],
        "cloud": None,
        "last": pytest.approx(175 / 3),
        "bmta": 75.0,
        "best_on_test": 75.0,
        "best_on_test_round": 2,
        "best_on_test_per_client": [100.0, 75.0, 50.0],
        "metrics": {
            "delivered": {"auroc": 55.0},
            "delivered_per_client": {"auroc": [30.0, None, 80.0]},
            "best_on_test": {"auroc": 50.0},
            "last": {"auroc": 60.0},
        },
        "bytes_up": 40,
        "bytes_down": 80,
        "bytes_eval": 12,
        "block_score": pytest.approx(4.0),  # .4 within; (.1 + .1 + .1) / 3 between
    }


def test_one_line_per_round(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    lines = [add_round(recorder, number) for number in (1, 2)]
    written = [unchecked(text) for text in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert written == lines
    assert list(lines[1]) == LINE_KEYS
    numbers = [1 / (0.25 + 0.16 + 0.01), 1 / (0.01 + 0.01 + 0.64)]
    assert lines[1] == {
        "round": 2,
        "mean": 75.0,
        "worst": 50.0,
        "val": 20.0,
        "metrics": {"auroc": 50.0},  # the silo where it is undefined does not count
        "per_silo": {"auroc": [20.0, None, 80.0]},
        "accuracy": [100.0, 75.0, 50.0],
        "loss": [1.0, 1.0, 1.0],
        "train_loss": None,
        "bytes_up": 10,
        "bytes_down": 20,
        "bytes_eval": 3,
        "seconds": {"local": 0.5, "evaluate": 0.25},
        "executed": "loop",
        "took_part": ["north", ".."],
        "dropped": {"A/B": "upload not finite"},
        "epochs": {"north": 5, "..": 3},
        "collaborators": pytest.approx(sum(numbers) / 2),
        "warnings": ["slow"],
    }


def test_what_is_not_a_number_is_null(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "groups": None})
    empty = Score(torch.empty(0, dtype=torch.bool), 0.0)
    lost = Score(torch.tensor([True, False]), math.inf)
    line = add_round(recorder, 1, weights=False, scores=[empty, lost, lost])
    assert unchecked((tmp_path / "rounds.jsonl").read_text()) == line
    assert line["accuracy"] == [None, 50.0, 50.0]
    assert line["loss"] == [None, None, None]
    assert line["mean"] == 50.0 and line["collaborators"] is None
    recorder.finish(models())
    summary = strictly((tmp_path / "summary.json").read_text())
    assert summary["per_client"] == [None, 50.0, 50.0] and summary["block_score"] is None
    assert line["val"] is None and (summary["chosen_by"], summary["delivered_round"]) == ("last round", 1)
    assert summary["metrics"] == {"delivered": {}, "delivered_per_client": {}, "best_on_test": {}, "last": {}}


def test_weights_models_and_predictions(tmp_path: Path) -> None:
    whole(tmp_path)
    with np.load(tmp_path / "weights.npz") as archive:
        assert archive.files == ["round_0001", "round_0002", "round_0003", "round_0004"]
        assert archive["round_0003"].dtype == np.float32
    run = read(tmp_path)
    assert list(run.weights) == [1, 2, 3, 4]
    np.testing.assert_array_equal(run.weights[3], a_round(3).weights)
    given, last = run.predictions["A/B"]["delivered"], run.predictions["A/B"]["last"]
    assert given.dtype == last.dtype == np.bool_
    assert run.predictions.keys() == set(SILOS)
    assert run.predictions["north"]["delivered"].tolist() == [True, True, True, False]  # of round 3
    assert run.predictions["north"]["last"].tolist() == [True, False, False, False]
    stored = load_file(tmp_path / "models" / "A%2FB.safetensors")
    assert all(torch.equal(stored[key], value) for key, value in models()[1][1].items())


def test_a_method_without_weights_writes_none(tmp_path: Path) -> None:
    whole(tmp_path, weights=False)
    assert not (tmp_path / "weights.npz").exists()
    assert read(tmp_path).weights == {}
    assert read(tmp_path).results["block_score"] is None


def test_config_can_be_read_again(tmp_path: Path) -> None:
    Recorder.create(tmp_path, {**CONFIG, "data_dir": Path("a/b"), "span": (1, 5)}, SILOS, FACTS)
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    expected = {**CONFIG, "data_dir": str(Path("a/b")), "span": [1, 5]}
    del expected["lr"]  # TOML has no null: an option that is not set is not there
    assert config == expected


def test_a_manifest_is_kept_beside_the_facts_and_goes_with_the_run(tmp_path: Path) -> None:
    manifest = {**MANIFEST, "silos": [{"name": "é", **HELD}, {"name": "b", **HELD, "val": [0, 1]}]}
    Recorder.create(tmp_path / "run", CONFIG, ["other"], {**FACTS, "groups": None}, manifest=manifest)
    assert read(tmp_path / "run").manifest == manifest
    assert len((tmp_path / "run" / "manifest.json").read_text().splitlines()) == 4 + 2 + 4  # a line for each silo
    Recorder.create(tmp_path / "run", CONFIG, ["other"], {**FACTS, "groups": None}, force=True)
    assert read(tmp_path / "run").manifest is None


def test_a_failed_silo_keeps_its_round_from_winning(tmp_path: Path) -> None:
    """R2 of minus infinity, as null in files, in the round that is best without that silo."""

    def scored(r2: Sequence[float], val: float) -> list[Score]:
        return [Score(torch.tensor([value]), 1.0, {"r2": value}, val) for value in r2]

    recorder = Recorder.create(tmp_path, CONFIG, SILOS, {**FACTS, "score": "r2"})
    add_round(recorder, 1, scores=scored([10.0, 20.0, math.nan], 5.0))
    line = add_round(recorder, 2, scores=scored([90.0, -math.inf, math.nan], -math.inf))
    assert line["mean"] is line["worst"] is line["val"] is None and line["r2"] == [90.0, None, None]
    assert any(warning.startswith("silo A/B's model is not finite: ") for warning in line["warnings"])
    recorder.checkpoint(saved_at(2, chosen=1))
    del recorder
    again, _ = Recorder.resume(tmp_path, CONFIG)  # from what is on disk
    add_round(again, 3, scores=scored([5.0, 5.0, math.nan], 1.0))
    summary = again.interrupted()
    assert summary is not None and (summary["best_on_test"], summary["best_on_test_round"]) == (15.0, 1)
    assert (summary["delivered"], summary["delivered_round"], summary["worst"]) == (15.0, 1, 10.0)


def test_many_failed_silos_are_one_warning(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(9)]
    scores = [Score(torch.tensor([False]), math.nan)] * 9
    recorder = Recorder.create(tmp_path, CONFIG, names, FACTS)
    nobody = a_round(1, scores=scores, weights=False)._replace(took_part=[], dropped={}, epochs={})
    line = recorder.add(nobody, [score.each for score in scores])
    (warning,) = line["warnings"]
    assert warning.startswith("9 silos' models are not finite, silo s0's among them: ") and line["mean"] == 0.0


def test_rounds_come_in_order(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    with pytest.raises(ValueError, match="expected 1, got 2"):
        add_round(recorder, 2)
    with pytest.raises(ValueError, match="recorded last"):
        recorder.checkpoint(saved_at(1))


def test_when_a_checkpoint_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("amity.record.writer.time.perf_counter", lambda: now[0])
    recorder = Recorder.create(tmp_path, {**CONFIG, "rounds": 9}, SILOS, FACTS)
    small, states, _, _ = saved_at(1)
    large = {"params": torch.zeros(1).expand(16_000_000)}
    server = Progress(1, large)
    assert recorder.checkpoint_due(small, states, "auto")
    assert not recorder.checkpoint_due(server, states, "auto")
    assert not recorder.checkpoint_due(small, [*states, large], "auto")
    assert not recorder.checkpoint_due(small, None, "auto")  # states that lie elsewhere must be fetched first
    now[0] += 120
    assert recorder.checkpoint_due(server, states, "auto") and recorder.checkpoint_due(small, None, "auto")
    add_round(recorder, 1)
    recorder.checkpoint(saved_at(1))
    assert not recorder.checkpoint_due(server, states, "auto")
    rounds = [Progress(round, {}) for round in range(1, 10)]
    for held in (states, None):
        assert [at.round for at in rounds if recorder.checkpoint_due(at, held, 4)] == [4, 8, 9]
        assert [at.round for at in rounds if recorder.checkpoint_due(at, held, 0)] == [9]


def test_a_run_under_way_can_be_read(tmp_path: Path) -> None:
    recorder = Recorder.create(tmp_path, CONFIG, SILOS, FACTS)
    assert read(tmp_path).results["bmta"] is None
    record_rounds(recorder, [1, 2])
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "mean"')
    run = read(tmp_path)
    assert run.summary is None and len(run.lines) == 2 and run.predictions == {}
    assert list(run.results) == SUMMARY_KEYS
    assert (run.results["rounds"], run.results["bmta"], run.results["seconds"]) == (2, 75.0, 1.5)
