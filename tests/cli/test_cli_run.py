"""`amity run`: the directory that it writes, and what its options do."""

from __future__ import annotations

import json
import shutil
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.commands import (
    MODEL_BYTES,
    TINY,
    Amity,
    arrays,
    config,
    lines,
    models,
    refused,
    summary,
    tree,
    with_tiny,
    worked,
)
from safetensors.torch import load_file

from amity import deal, load, record

SUMMARY = [
    *("method", "data", "setting", "model", "clients", "rounds", "seed"),
    *("score", "delivered", "delivered_round", "chosen_by", "worst", "spread", "per_client", "cloud", "last"),
    *("bmta", "best_on_test", "best_on_test_round", "best_on_test_per_client", "metrics"),
    *("seconds", "bytes_up", "bytes_down", "bytes_eval"),
    *("block_score", "engine", "version"),
]


def test_a_run_writes_its_directory(amity: Amity, tmp_path: Path) -> None:
    words = "run heurfedamp --data digits --clients 5 --rounds 3 --epochs 1 --workers 1 --out there/a".split()
    said = amity(*words)
    worked(said)
    path = tmp_path / "there" / "a"
    names = [f"silo-{i:02d}" for i in range(5)]
    assert {name for name, content in tree(tmp_path).items() if content is not None} == {
        f"there/a/{name}"
        for name in (
            *(
                "config.toml",
                "facts.json",
                "manifest.json",
                "events.jsonl",
                "rounds.jsonl",
                "weights.npz",
                "summary.json",
            ),
            *("report.html", "checksums.json", "checkpoint/checksums.json"),
            *(f"models/{name}.{kind}" for name in names for kind in ("safetensors", "json", "md")),
            *(f"clouds/{name}.safetensors" for name in names),
            *(f"predictions/{name}.npz" for name in names),
            *(f"checkpoint/{part}.safetensors" for part in ("server", "clients", "scores", "clouds")),
            "checkpoint/progress.json",
        )
    }
    assert "heurfedamp" in said.out and "report.html" in said.out
    told = [line.split(" mean")[0] for line in said.err.splitlines() if " mean " in line]
    assert told == [f"heurfedamp round {n}/3" for n in (1, 2, 3)]
    report = (path / "report.html").read_text(encoding="utf-8")
    assert "heurfedamp" in report and report.rstrip().endswith("</html>")


def test_the_numbers_of_a_run_directory_agree_with_each_other(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "fedamp", *with_tiny("--rounds 4"), "--lr", "0.05", "--out", "a"))
    path = tmp_path / "a"
    found = json.loads((path / "summary.json").read_text())
    assert list(found) == SUMMARY
    rounds = lines(path)
    assert [line["round"] for line in rounds] == [1, 2, 3, 4]
    for line in rounds:
        assert set(line) >= {"mean", "worst", "accuracy", "loss", "bytes_up", "bytes_down", "seconds", "took_part"}
        assert len(line["accuracy"]) == len(line["loss"]) == 3
        assert line["mean"] == pytest.approx(sum(line["accuracy"]) / 3)
        assert line["worst"] == min(line["accuracy"])
        assert line["took_part"] == ["silo-00", "silo-01", "silo-02"]
        assert line["dropped"] == {} and line["warnings"] == []
        assert line["bytes_up"] == line["bytes_down"] == 3 * MODEL_BYTES
        assert all(value >= 0 for value in line["seconds"].values())
    best, last = max(rounds, key=lambda line: line["mean"]), rounds[-1]
    assert (found["best_on_test_round"], found["bmta"]) == (best["round"], best["mean"])
    assert (found["delivered_round"], found["chosen_by"], found["per_client"]) == (4, "last round", last["accuracy"])
    assert (found["delivered"], found["last"], found["worst"]) == (last["mean"], last["mean"], last["worst"])
    assert (found["method"], found["data"], found["setting"], found["model"]) == ("fedamp", "synthetic", "iid", "mlr")
    assert (found["clients"], found["rounds"], found["seed"], found["engine"]) == (3, 4, 0, "simulate")
    assert found["bytes_up"] == 4 * 3 * MODEL_BYTES
    assert found["version"] == version("amity")
    for place, name in enumerate(["silo-00", "silo-01", "silo-02"]):
        right = arrays(path / "predictions" / f"{name}.npz")
        assert 100 * right["delivered"].mean() == pytest.approx(last["accuracy"][place])
        assert 100 * right["last"].mean() == pytest.approx(last["accuracy"][place])
        assert load_file(path / "models" / f"{name}.safetensors").keys() == {"1.weight", "1.bias"}
    weights = arrays(path / "weights.npz")
    assert list(weights) == [f"round_{n:04d}" for n in (1, 2, 3, 4)]
    assert all(np.allclose(matrix.sum(1), 1) and matrix.shape == (3, 3) for matrix in weights.values())


def test_a_method_without_weights_writes_none(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "a"))
    assert not (tmp_path / "a" / "weights.npz").exists()
    assert summary(tmp_path / "a")["block_score"] is None
    assert summary(tmp_path / "a")["bytes_up"] == summary(tmp_path / "a")["bytes_down"] == 0


def test_without_out_a_run_goes_under_runs(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--seed", "3"))
    worked(amity("compare", "separate", "fedavg", *TINY))
    assert record.read(tmp_path / "runs" / "separate-synthetic-iid-3").results["seed"] == 3
    assert (tmp_path / "runs" / "compare-synthetic-iid-0" / "report.html").exists()


@pytest.mark.parametrize(
    "words",
    [
        "apple --set budget=2 --participation 0.7 --local-epochs-range 1:3",
        "pfedatt --set k=2 --lr 0.02 --lr-decay 0.9 --optimizer sgd --momentum 0.5 --batch 17",
        "fedavg-ft --set ft_epochs=2 --drop 0.4 --drop-phase after --val-fraction 0.2 --seed 7",
    ],
)
def test_config_toml_is_all_that_is_needed_to_run_again(amity: Amity, words: str, tmp_path: Path) -> None:
    worked(amity("run", *with_tiny(words), "--out", "a"))
    worked(amity("run", "--config", "a/config.toml", "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert config(tmp_path / "a") == config(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")
    worked(amity("run", "--config", "a/config.toml", "--out", "c", "--seed", "8"))
    assert models(tmp_path / "a") != models(tmp_path / "c")


def test_flags_win_over_the_config_file(amity: Amity, tmp_path: Path) -> None:
    text = (
        'method = "fedavg"\ndata = "synthetic"\nsetting = "iid"\nclients = 3\nmodel = "mlr"\nrounds = 3\nepochs = 1\n'
    )
    (tmp_path / "c.toml").write_text(text + "lr = 0.5\n[set]\nsigma = 5.0\nk = 3\n")
    worked(amity("run", "pfedatt", "--config", "c.toml", "--rounds", "2", "--set", "sigma=7", "--out", "a"))
    found = config(tmp_path / "a")
    assert (found["method"], found["rounds"], found["lr"], found["clients"]) == ("pfedatt", 2, 0.5, 3)
    assert (found["set"]["sigma"], found["set"]["k"]) == (7.0, 3)
    assert len(lines(tmp_path / "a")) == 2


def test_workers_do_not_change_the_result(amity: Amity, tmp_path: Path) -> None:
    for count in ("1", "2"):
        words = f"run apple --clients 5 --workers {count} --set budget=2 --participation 0.8"
        worked(amity(*with_tiny(words), "--out", count))
    assert summary(tmp_path / "1") == summary(tmp_path / "2")
    assert models(tmp_path / "1") == models(tmp_path / "2")


def test_apple_downloads_what_its_budget_allows(amity: Amity, tmp_path: Path) -> None:
    worked(amity(*with_tiny("run apple --clients 5 --rounds 4 --set budget=2"), "--out", "a"))
    worked(amity(*with_tiny("run apple --clients 5 --rounds 4"), "--out", "all"))
    # The first cores come from seeds; then each of 5 silos gets 2 cores a round, or those of all 4 others.
    assert [line["bytes_down"] for line in lines(tmp_path / "a")] == [0, *[5 * 2 * MODEL_BYTES] * 3]
    assert summary(tmp_path / "a")["bytes_down"] == 3 * 5 * 2 * MODEL_BYTES
    assert summary(tmp_path / "all")["bytes_down"] == 3 * 5 * 4 * MODEL_BYTES


def test_a_k_larger_than_the_silos_is_clipped_and_said_once(amity: Amity, tmp_path: Path) -> None:
    said = amity("run", "pfedatt", *TINY, "--set", "k=99", "--out", "a")
    worked(said)
    told = [line for line in said.err.splitlines() if "k = 99" in line]
    assert len(told) == 1 and "3 silos" in told[0] and "clipped to 3" in told[0]
    assert all(any("k = 99" in warning for warning in line["warnings"]) for line in lines(tmp_path / "a"))
    worked(amity("run", "pfedatt", *TINY, "--set", "k=3", "--out", "b"))
    assert models(tmp_path / "a") == models(tmp_path / "b")


@pytest.mark.parametrize("phase", ["before", "after"])
def test_who_took_part_and_who_dropped_is_recorded(amity: Amity, phase: str, tmp_path: Path) -> None:
    words = "run fedavg --clients 8 --rounds 5 --participation 0.5 --drop 0.5 --local-epochs-range 1:3"
    worked(amity(*with_tiny(words), "--drop-phase", phase, "--out", "a"))
    rounds = lines(tmp_path / "a")
    for line in rounds:  # 4 of 8 are sampled, 2 of these drop
        assert len(line["took_part"]) == len(line["dropped"]) == 2
        assert not set(line["took_part"]) & set(line["dropped"])
        assert all(phase in why for why in line["dropped"].values())
        trained = {*line["took_part"], *(line["dropped"] if phase == "after" else ())}
        assert line["epochs"].keys() == trained
        assert set(line["epochs"].values()) <= {1, 2, 3}
        assert line["bytes_up"] == 2 * MODEL_BYTES
        assert line["bytes_down"] == len(trained) * MODEL_BYTES
    assert len({tuple(line["took_part"]) for line in rounds}) > 1
    assert len({count for line in rounds for count in line["epochs"].values()}) > 1
    assert config(tmp_path / "a")["drop_phase"] == phase


def test_init_from_starts_everybody_from_these_weights(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "a"))
    weights = tmp_path / "a" / "models" / "silo-01.safetensors"
    still = ["--optimizer", "sgd", "--lr", "1e-30"]  # steps that a float32 does not feel
    worked(amity("run", "fedavg-local", *TINY, "--init-from", weights, *still, "--out", "b"))
    given = load_file(weights)
    for file in (tmp_path / "b" / "models").glob("*.safetensors"):
        assert all(torch.equal(value, given[key]) for key, value in load_file(file).items())
    assert config(tmp_path / "b")["init_from"] == str(weights)


def test_force_replaces_a_run_and_nothing_else(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "a")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    worked(amity("run", "separate", *TINY, "--seed", "1", "--out", "a", "--force"))
    worked(amity("run", "separate", *TINY, "--seed", "1", "--out", "b"))
    assert (tmp_path / "a" / "notes.txt").read_text() == "mine"
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")
    assert tree(tmp_path / "a").keys() == {*tree(tmp_path / "b"), "notes.txt"}


def test_a_run_needs_a_name_for_its_directory(amity: Amity, tmp_path: Path) -> None:
    for command in (["run", "separate"], ["compare", "separate", "fedavg"]):
        refused(amity(*command, *TINY, "--out", ""), "--out", "empty")
    assert not list(tmp_path.iterdir())


def test_the_setting_of_a_run_may_have_options_and_propose_who_takes_part(amity: Amity, tmp_path: Path) -> None:
    tiny = "--data synthetic --model mlr --rounds 2 --epochs 1 --workers 1 --clients 20".split()
    worked(amity("run", "separate", "--setting", "many:alpha=1", *tiny))
    path = tmp_path / "runs" / "separate-synthetic-many-alpha-1-0"
    config = tomllib.loads((path / "config.toml").read_text())
    assert (config["setting"], config["participation"]) == ("many:alpha=1.0,min_size=10", 0.1)
    lines = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    assert [len(line["took_part"]) for line in lines] == [2, 2]
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest == deal(load("synthetic"), "many:alpha=1", 20, seed=0).manifest()
    assert manifest["sha256"] == json.loads((path / "facts.json").read_text())["sha256"]
    worked(amity("run", "--config", str(path / "config.toml"), "--participation", "0.5", "--out", "half"))
    assert len(json.loads((tmp_path / "half" / "rounds.jsonl").read_text().splitlines()[0])["took_part"]) == 10
    worked(amity("run", "pooled", "--setting", "many:alpha=1", *tiny, "--out", "pooled"))
    assert tomllib.loads((tmp_path / "pooled" / "config.toml").read_text())["participation"] == 1


def test_a_run_is_scored_by_the_metric_that_is_named(amity: Amity, tmp_path: Path) -> None:
    said = amity("run", "separate", *TINY, "--metric", "balanced", "--class-weights", "balanced", "--out", "here")
    worked(said)
    assert "Delivered balanced %" in said.out and "best mean test balanced accuracy" in said.out
    assert "(balanced accuracy)" in said.err
    here = tmp_path / "here"
    assert (config(here)["metric"], config(here)["class_weights"]) == ("balanced_accuracy", "balanced")
    assert summary(here)["score"] == "balanced_accuracy" and summary(here)["bmta"] is None
    assert all("balanced_accuracy" in line and "accuracy" in line["metrics"] for line in lines(here))
    words = [event.words for event in record.read(here).events if event.what == "recorded"]
    assert len(words) == 2 and all(text.endswith("(balanced accuracy)") for text in words)


def test_a_metric_that_does_not_fit_is_one_line_and_nothing_is_written(amity: Amity, tmp_path: Path) -> None:
    refused(amity("run", "separate", *TINY, "--metric", "r2", "--out", "here"), "metric r2 is for quantities")
    refused(amity("run", "separate", *TINY, "--metric", "roc", "--out", "here"), "metric to be one of auto, accuracy")
    assert not (tmp_path / "here").exists()
