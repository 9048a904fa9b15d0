"""The command line as its users meet it: what it writes, what it says, what it refuses and leaves alone.

Called in process, for loading torch takes seconds; real processes only where a signal or a fresh interpreter counts.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from amity import Run, cli, cli_progress, deal, execute, load, record
from amity.config import fields_of
from amity.data import SETTINGS, SOURCES
from amity.data.settings import options_of as setting_options
from amity.methods import METHODS, options_of
from amity.run import prepare

TINY = "--data synthetic --setting iid --clients 3 --model mlr --rounds 2 --epochs 1 --workers 1".split()
MODEL_BYTES = 4 * (20 * 10 + 10)  # mlr on synthetic: 20 features, 10 classes, float32

SUMMARY = [
    *("method", "data", "setting", "model", "clients", "rounds", "seed"),
    *("score", "best", "bmta", "best_round", "last", "worst", "per_client"),
    *("validated", "validated_round", "validated_per_client", "metrics"),
    *("seconds", "bytes_up", "bytes_down", "bytes_eval"),
    *("block_score", "engine", "version"),
]


class Said(NamedTuple):
    code: int
    out: str
    err: str


Amity = Callable[..., Said]


@pytest.fixture
def amity(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Amity:
    """Call the command line in a directory of its own, where no data set is to be found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AMITY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(*words: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["amity", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return call


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run, to be copied."""
    path = tmp_path_factory.mktemp("finished") / "run"
    execute(Run("pfedatt", data="synthetic", setting="iid", clients=3, model="mlr", rounds=2, epochs=1), out=path)
    return path


def tree(path: Path, but: str = "") -> dict[str, bytes | None]:
    """Every file with its content, every directory; less the files of one name."""
    return {
        str(item.relative_to(path)): item.read_bytes() if item.is_file() else None
        for item in sorted(path.rglob("*"))
        if item.name != but
    }


def summary(path: Path) -> dict[str, Any]:
    """What a run found; its time is not part of that."""
    content: dict[str, Any] = json.loads((path / "summary.json").read_text())
    return {key: value for key, value in content.items() if key != "seconds"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]


def config(path: Path) -> dict[str, Any]:
    return tomllib.loads((path / "config.toml").read_text())


def models(path: Path) -> dict[str, bytes | None]:
    return tree(path / "models")


def arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as archive:
        return dict(archive)


def worked(said: Said) -> None:
    assert said.code == 0, said.err
    assert "Traceback" not in said.err


def refused(said: Said, *needed: str) -> None:
    """One clear line, exit 2."""
    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1, said.err
    assert said.err.startswith("amity: ")
    assert said.out == ""
    for words in needed:
        assert words in said.err


# What is refused ------------------------------------------------------------------------------------------------

UNKNOWN = {
    "method": ("run fedamq", "did you mean fedamp"),
    "method of a comparison": ("compare separate fedamq", "did you mean fedamp"),
    "data": ("run separate --data digit", "did you mean digits"),
    "setting": ("run separate --setting practicall", "did you mean practical"),
    "model": ("run separate --model cnnn", "did you mean cnn"),
    "option key": ("run pfedatt --set sigm=1", "did you mean sigma"),
    "option key of one method": ("compare separate pfedatt --set pfedatt.sigm=1", "did you mean sigma"),
    "option key of nobody": ("compare separate pfedatt --set kernell=cosine", "did you mean kernel"),
    "method in --set": ("compare separate pfedatt --set pfedat.sigma=1", "did you mean pfedatt"),
    "option value": ("run pfedatt --set kernel=cosin", "cosine, euclidean"),
    "optimizer": ("run separate --optimizer sgdd", "auto, adam, sgd"),
    "drop phase": ("run separate --drop-phase never", "before, after"),
    "flag": ("run separate --roundz 3", "--rounds"),
    "device": ("run separate --device tpu9", "tpu9", "try cpu"),
}

VALUES = {  # flag -> values that it must refuse
    "--rounds": "0 -1 2.5 many nan",
    "--clients": "0 -3 2.5",
    "--epochs": "0 -1",
    "--batch": "0 -8 1.5",
    "--lr": "0 -0.1 nan inf fast",
    "--lr-decay": "0 -1 1.5",
    "--val-fraction": "-0.1 1",
    "--evaluate-every": "0 x",
    "--seed": "-1 x",
    "--workers": "0 -2",
    "--participation": "0 -0.5 1.5",
    "--drop": "-0.1 1.1",
    "--checkpoint-every": "-1",
    "--local-epochs-range": "9:1 0:3 3 a:b 1:2:3 :",
}

SETTINGS_OF_METHODS = {
    "run fedamp": "sigma=0 sigma=-1 sigma=nan alpha=0 attraction=-1 self_weight=2",
    "run heurfedamp": "sigma=0 sigma=-5",
    "run pfedatt": "k=0 k=-1 k=1.5 sigma=0",
    "run apple": "budget=0 eta2=-1 penalty_rounds=2",
    "run fedacs": "p=1.5 damping=0",
    "run fedprox": "mu=-1",
    "run fedavg-ft": "ft_epochs=-1 ft_lr=0",
    "compare separate pfedatt": "pfedatt.k=0 pfedatt.lr=-1 pfedatt.lr=x separate.optimizer=sgdd",
}

OTHER = {
    "practical: too many clients": ("run separate --data digits --setting practical --clients 9999", "at most", "9999"),
    "pathological: too many clients": ("run separate --setting pathological --clients 9999", "at most", "9999"),
    "iid: too many clients": ("run separate --setting iid --clients 9999", "at most", "9999"),
    "no training data left": ("run separate --clients 1500 --val-fraction 0.9", "training example", "val-fraction"),
    "model for larger images": ("run separate --data digits --model cnn-apple", "16x16"),
    "model for images": ("run separate --model cnn", "images"),
    "an optimizer against the equations": ("run apple --optimizer adam", "apple", "sgd"),
    "... also in a comparison": ("compare separate apple --optimizer adam", "apple", "sgd"),
    "missing data": ("run separate --data mnist", "train-images-idx3-ubyte.gz", "AMITY_DATA"),
    "--set without value": ("run pfedatt --set k", "key=value", "'k'"),
    "--set without key": ("run pfedatt --set =3", "key=value"),
    "no weights there": ("run separate --init-from nowhere.safetensors", "nowhere.safetensors", "does not exist"),
    "no folder there": ("run fedamp --matrix-dir nowhere", "matrix_dir", "nowhere", "exists"),
    "no config there": ("run separate --config nowhere.toml", "nowhere.toml"),
    "no method": ("run", "METHOD"),
    "no methods": ("compare", "METHOD"),
    "a method twice": ("compare fedavg separate fedavg", "fedavg", "more than once"),
    "one word too many": ("run separate fedavg", "fedavg"),
}

CASES = {f"unknown {name}": case for name, case in UNKNOWN.items()}
CASES |= {
    f"{flag} {value}": (f"run separate {flag} {value}", flag[2:].replace("-", "_"), value)
    for flag, values in VALUES.items()
    for value in values.split()
}
CASES |= {
    f"{command} {text}": (f"{command} --set {text}", text.split("=")[0].rpartition(".")[2])
    for command, texts in SETTINGS_OF_METHODS.items()
    for text in texts.split()
}
CASES |= OTHER


def with_tiny(command: str) -> list[str]:
    """The command on the tiny federation, as far as it does not say otherwise itself."""
    words = command.split()
    pairs = zip(TINY[::2], TINY[1::2], strict=True)
    return [*words, *(word for flag, value in pairs if flag not in words for word in (flag, value))]


@pytest.mark.parametrize("command", CASES.values(), ids=CASES)
def test_bad_input_is_refused_in_one_line_and_writes_nothing(
    amity: Amity, command: tuple[str, ...], tmp_path: Path
) -> None:
    line, *needed = command
    refused(amity(*with_tiny(line)), *needed)
    refused(amity(*with_tiny(line), "--out", "new/run"), *needed)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("way", ["--force", "--resume"])
@pytest.mark.parametrize("command", CASES.values(), ids=CASES)
def test_bad_input_leaves_a_run_as_it_is(
    amity: Amity, command: tuple[str, ...], way: str, tmp_path: Path, finished: Path
) -> None:
    line, *needed = command
    if (line, way) == ("run", "--resume"):
        line = "run fedamq"  # a resumed run knows its method
    words = with_tiny(line)
    place = tmp_path / "held" if words[0] == "run" else tmp_path / "held" / "pfedatt"
    shutil.copytree(finished, place)
    before = tree(tmp_path)
    refused(amity(*words, "--out", "held", way), *needed if way == "--force" else ())
    assert tree(tmp_path) == before


def test_a_directory_that_holds_a_run_is_refused(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    shutil.copytree(finished, tmp_path / "both" / "separate")
    before = tree(tmp_path)
    refused(amity("run", "separate", *TINY, "--out", "held"), "held", "--resume", "--force")
    refused(amity("run", "pfedatt", *TINY, "--out", "held", "--resume", "--force"), "--resume", "--force")
    refused(amity("compare", "fedavg", "separate", *TINY, "--out", "both"), "separate", "--resume", "--force")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("what", ["seed", "rounds", "lr", "set"])
def test_a_run_is_not_resumed_with_another_value(amity: Amity, what: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    before = tree(tmp_path)
    changes = {"seed": "--seed 5", "rounds": "--rounds 1", "lr": "--lr 0.5", "set": "--set sigma=3"}
    named = {"set": "sigma"}.get(what, what)
    refused(amity("run", "pfedatt", "--out", "held", "--resume", *changes[what].split()), named)
    assert tree(tmp_path) == before


def test_a_run_is_not_resumed_as_another_method(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    before = tree(tmp_path)
    refused(amity("run", "separate", *TINY, "--out", "held", "--resume"), "held", "method", "'pfedatt'")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "needed"),
    {
        "unknown key": ('round = 3\nmethod = "separate"\n', "did you mean rounds"),
        "unknown option": ('method = "pfedatt"\n[set]\nsigm = 3\n', "did you mean sigma"),
        "not TOML": ("rounds = = 3\n", "TOML"),
        "not text": (b"\xff\xfe\x00", "TOML"),
        "value": ('method = "separate"\nrounds = 0\n', "rounds"),
        "type": ('method = "separate"\nrounds = "3"\n', "rounds"),
        "truth": ('method = "separate"\nlr = true\n', "lr"),
        "set is no table": ('method = "separate"\nset = 3\n', "[set]"),
        "a table elsewhere": ('method = "separate"\n[data]\nname = "digits"\n', "[set]"),
        "option value": ('method = "pfedatt"\n[set]\nk = [1]\n', "k"),
    }.values(),
)
def test_a_bad_config_file_is_refused(amity: Amity, content: str | bytes, needed: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = tree(tmp_path)
    refused(amity("run", "--config", "bad.toml"), needed)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("command", "content"), [("run", "method = 3"), ("compare", "methods = 3"), ("compare", "methods = [1, 2]")]
)
def test_a_config_file_whose_method_is_no_text_is_refused(
    amity: Amity, command: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.toml").write_text(content + "\n")
    refused(amity(command, "--config", "bad.toml"), "method")


@pytest.mark.parametrize(
    "words",
    [
        "--rounds 99999999999999999999",
        "--epochs 99999999999999999999",
        "--batch 99999999999999999999",
        "--local-epochs-range 1:99999999999999999999",
        "--local-epochs-range ²:3",
    ],
)
def test_numbers_that_no_machine_can_hold_are_refused(amity: Amity, words: str, tmp_path: Path) -> None:
    refused(amity(*with_tiny(f"run fedamp {words}"), "--out", "new"))
    assert tree(tmp_path) == {}


def test_a_refusal_is_one_line_also_where_the_setting_has_something_to_note(amity: Amity) -> None:
    refused(amity("run", "separate", "--data", "digits", "--clients", "3", "--model", "cnnn"), "did you mean cnn")


def idx(shape: tuple[int, ...]) -> bytes:
    header = bytes((0, 0, 8, len(shape))) + b"".join(size.to_bytes(4, "big") for size in shape)
    return header + bytes(int(np.prod(shape)))


@pytest.mark.parametrize("fault", ["cut off", "not IDX", "not official", "not gzip"])
def test_corrupt_data_files_are_refused(amity: Amity, fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "files" / "mnist"
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx((2, 28, 28))))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx((2,))))
    broken = folder / "train-images-idx3-ubyte.gz"
    whole = broken.read_bytes()
    broken.write_bytes(
        {"cut off": whole[:30], "not IDX": b"<html>", "not gzip": b"\x1f\x8b__", "not official": whole}[fault]
    )
    before = tree(tmp_path)
    refused(amity("run", "separate", "--data", "mnist", "--data-dir", "files", "--out", "new"), str(broken.name))
    assert tree(tmp_path) == before


@pytest.mark.parametrize("fault", ["not safetensors", "empty", "a directory", "other shapes", "not finite"])
def test_wrong_first_weights_are_refused(amity: Amity, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    given = {"1.weight": torch.zeros(10, 20), "1.bias": torch.zeros(10)}
    if fault == "a directory":
        file.mkdir()
    elif fault in ("other shapes", "not finite"):
        wrong = torch.zeros(7) if fault == "other shapes" else torch.full((10,), torch.nan)
        save_file({**given, "1.bias": wrong}, file)
    else:
        file.write_bytes(b"" if fault == "empty" else b"not a safetensors file at all")
    before = tree(tmp_path)
    needed = "first weights" if fault in ("other shapes", "not finite") else "safetensors"
    refused(amity("run", "separate", *TINY, "--init-from", file, "--out", "new"), needed)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("method", ["fedamp init", "apple core_init"])
def test_independent_first_models_do_not_go_with_given_weights(
    amity: Amity, method: str, tmp_path: Path, finished: Path
) -> None:
    name, key = method.split()
    weights = finished / "models" / "silo-00.safetensors"
    words = [*TINY, "--init-from", weights, "--set", f"{key}=independent"]
    refused(amity("run", name, *words, "--out", "new"), "independent")
    assert tree(tmp_path) == {}


def test_what_only_round_1_can_refuse_leaves_an_older_run_alone(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    before = tree(tmp_path)
    words = ["--set", "mode=theory", "--set", "on_negative=error"]
    refused(amity("run", "fedamp", *TINY, *words, "--out", "held", "--force"), "alpha")
    assert tree(tmp_path) == before


def test_what_only_round_1_can_refuse_leaves_nothing_either(amity: Amity, tmp_path: Path) -> None:
    refused(
        amity("run", "fedamp", *TINY, "--set", "mode=theory", "--set", "on_negative=error", "--out", "new"), "alpha"
    )
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("command", ["run separate", "compare separate fedavg"])
def test_an_output_that_is_a_file_is_refused(amity: Amity, command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused(amity(*command.split(), *TINY, "--out", "file"), "file")
    assert tree(tmp_path) == {"file": b"mine"}


def test_a_comparison_looks_at_every_target_before_it_starts(amity: Amity, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "fedavg").write_text("mine")
    before = tree(tmp_path)
    refused(amity("compare", "separate", "fedavg", *TINY, "--out", "out"), "fedavg")
    assert tree(tmp_path) == before


def test_a_comparison_looks_at_every_run_that_it_resumes_before_it_starts(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "fedavg", *TINY, "--seed", "1", "--out", "out/fedavg"))
    before = tree(tmp_path)
    refused(amity("compare", "separate", "fedavg", *TINY, "--seed", "0", "--out", "out", "--resume"), "fedavg", "seed")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("words", ["comparr fedavg", "runn", "report", "report nowhere", "report .", "--verbose"])
def test_other_commands_refuse_in_one_line_too(amity: Amity, words: str, tmp_path: Path) -> None:
    refused(amity(*words.split()))
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    "name", ["config.toml", "facts.json", "manifest.json", "rounds.jsonl", "summary.json", "weights.npz"]
)
def test_a_report_of_a_broken_run_is_refused(amity: Amity, name: str, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "held" / name).write_bytes(b"{ broken\n{")
    before = tree(tmp_path)
    refused(amity("report", "held"), "held")
    assert tree(tmp_path) == before


# What is written ------------------------------------------------------------------------------------------------


def test_a_run_writes_its_directory(amity: Amity, tmp_path: Path) -> None:
    words = "run heurfedamp --data digits --clients 5 --rounds 3 --epochs 1 --workers 1 --out there/a".split()
    said = amity(*words)
    worked(said)
    path = tmp_path / "there" / "a"
    names = [f"silo-{i:02d}" for i in range(5)]
    assert {name for name, content in tree(tmp_path).items() if content is not None} == {
        f"there/a/{name}"
        for name in (
            *("config.toml", "facts.json", "manifest.json", "rounds.jsonl", "weights.npz", "summary.json"),
            "report.html",
            *(f"models/{name}.safetensors" for name in names),
            *(f"predictions/{name}.npz" for name in names),
            *(f"checkpoint/{part}.safetensors" for part in ("server", "clients", "scores")),
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
    best = max(rounds, key=lambda line: line["mean"])
    assert (found["best_round"], found["bmta"], found["per_client"]) == (best["round"], best["mean"], best["accuracy"])
    assert (found["last"], found["worst"]) == (rounds[-1]["mean"], best["worst"])
    assert (found["method"], found["data"], found["setting"], found["model"]) == ("fedamp", "synthetic", "iid", "mlr")
    assert (found["clients"], found["rounds"], found["seed"], found["engine"]) == (3, 4, 0, "simulate")
    assert found["bytes_up"] == 4 * 3 * MODEL_BYTES
    assert found["version"] == version("amity")
    for place, name in enumerate(["silo-00", "silo-01", "silo-02"]):
        right = arrays(path / "predictions" / f"{name}.npz")
        assert 100 * right["best"].mean() == pytest.approx(best["accuracy"][place])
        assert 100 * right["last"].mean() == pytest.approx(rounds[-1]["accuracy"][place])
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
        "pfedatt --set k=2 --lr 0.02 --lr-decay 0.9 --optimizer sgd --batch 17",
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


def test_a_comparison_writes_its_runs_a_table_and_a_report(amity: Amity, tmp_path: Path) -> None:
    said = amity("compare", "separate", "fedavg", "pfedatt", *TINY, "--out", "both")
    worked(said)
    assert sorted(p.name for p in (tmp_path / "both").iterdir()) == ["fedavg", "pfedatt", "report.html", "separate"]
    table = [line for line in said.out.splitlines() if line.split()[:1] in (["separate"], ["fedavg"], ["pfedatt"])]
    for name, row in zip(("separate", "fedavg", "pfedatt"), table, strict=True):
        assert row.split()[0] == name
        assert f"{summary(tmp_path / 'both' / name)['bmta']:.2f}" in row
    report = (tmp_path / "both" / "report.html").read_text(encoding="utf-8")
    assert all(name in report for name in ("separate", "fedavg", "pfedatt"))


def test_a_run_of_a_comparison_is_the_run_alone(amity: Amity, tmp_path: Path) -> None:
    worked(amity("compare", "fedavg", "heurfedamp", *TINY, "--out", "both"))
    worked(amity("run", "heurfedamp", *TINY, "--out", "alone"))
    assert summary(tmp_path / "both" / "heurfedamp") == summary(tmp_path / "alone")
    assert models(tmp_path / "both" / "heurfedamp") == models(tmp_path / "alone")


def test_set_in_a_comparison(amity: Amity, tmp_path: Path) -> None:
    texts = ["sigma=7", "pfedatt.sigma=9", "pfedatt.k=2", "fedavg.lr=0.25", "fedavg.epochs=2", "pfedatt.optimizer=sgd"]
    words = [word for text in texts for word in ("--set", text)]
    worked(amity("compare", "fedavg", "heurfedamp", "pfedatt", *TINY, "--lr", "0.125", *words, "--out", "all"))
    fedavg, heurfedamp, pfedatt = (config(tmp_path / "all" / name) for name in ("fedavg", "heurfedamp", "pfedatt"))
    assert "sigma" not in fedavg["set"]
    assert (heurfedamp["set"]["sigma"], pfedatt["set"]["sigma"], pfedatt["set"]["k"]) == (7.0, 9.0, 2)
    assert [run["lr"] for run in (fedavg, heurfedamp, pfedatt)] == [0.25, 0.125, 0.125]
    assert [run["epochs"] for run in (fedavg, heurfedamp, pfedatt)] == [2, 1, 1]
    assert [run["optimizer"] for run in (fedavg, heurfedamp, pfedatt)] == ["adam", "adam", "sgd"]
    assert set(lines(tmp_path / "all" / "fedavg")[0]["epochs"].values()) == {2}


def test_a_comparison_from_a_config_file(amity: Amity, tmp_path: Path) -> None:
    text = 'methods = ["separate", "pfedatt"]\ndata = "synthetic"\nsetting = "iid"\nclients = 3\nmodel = "mlr"\n'
    (tmp_path / "c.toml").write_text(text + "rounds = 1\nepochs = 1\n[set]\nk = 2\n")
    worked(amity("compare", "--config", "c.toml", "--out", "both"))
    assert config(tmp_path / "both" / "pfedatt")["set"]["k"] == 2
    assert len(lines(tmp_path / "both" / "separate")) == 1


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
    for file in (tmp_path / "b" / "models").iterdir():
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


def test_a_table_in_a_file_is_whole(amity: Amity, tmp_path: Path, finished: Path) -> None:
    """Eighty columns are what is taken for a file's width: too few for the table of a run with a long name."""
    names = [f"a-name-of-some-length-{number}" for number in (1, 2)]
    for name in names:
        shutil.copytree(finished, tmp_path / "all" / name)
    said = amity("report", "all")
    worked(said)
    assert "…" not in said.out and "MB down" in said.out and f"pfedatt ({names[1]})" in said.out


def test_a_terminal_without_the_letters_still_shows_the_results(tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "Zürich")
    program = "import amity.cli as c; c.main()"
    command = [sys.executable, "-c", program, "report", "Zürich"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert done.returncode == 0, done.stderr
    assert b"pfedatt" in done.stdout and b"report: report.html" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"], ["--version"]])
def test_output_that_finds_no_room_is_told_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "amity.cli", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and done.stderr.startswith("amity: there is no room") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["methods"], ["methods", "--json"], ["--version"]])
def test_a_reader_that_has_left_gets_no_traceback(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        done = subprocess.run([sys.executable, "-m", "amity.cli", *words], stdout=pipe, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr == b""


# Interrupted and resumed ----------------------------------------------------------------------------------------


def interrupting(hook: str, last: int) -> Callable[..., Any]:
    """A stand-in for the progress display: Ctrl-C after a round, or within the next."""

    @contextmanager
    def shown(ready: Any) -> Iterator[tuple[Callable[[str, int, int], None], Callable[[dict[str, Any]], None]]]:
        seen = [0]

        def within(phase: str, done: int, total: int) -> None:
            if hook == phase and seen[0] == last and done == 1:
                raise KeyboardInterrupt

        def after(line: dict[str, Any]) -> None:
            seen[0] = line["round"]
            if hook == "round" and seen[0] == last:
                raise KeyboardInterrupt

        yield within, after

    return shown


@pytest.mark.parametrize(
    ("method", "hook", "every"),
    [
        ("pfedatt", "round", "auto"),
        ("pfedatt", "train", "0"),
        ("apple", "evaluate", "3"),
        ("apple", "round", "2"),
        ("fedavg-ft", "train", "auto"),
    ],
)
def test_an_interrupted_run_is_readable_and_resumes_to_the_same_end(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, method: str, hook: str, every: str, tmp_path: Path
) -> None:
    words = with_tiny(f"run {method} --rounds 5 --participation 0.7 --checkpoint-every {every}")
    with monkeypatch.context() as patch:
        patch.setattr(cli, "shown", interrupting(hook, 2))
        said = amity(*words, "--out", "a")
    assert said.code == 130
    assert "Traceback" not in said.err and "--resume" in said.err
    half = record.read(tmp_path / "a")
    assert len(half.lines) == 2 and half.results["rounds"] == 2
    assert list(half.weights) == ([] if method == "fedavg-ft" else [1, 2])
    assert len(half.predictions) == 3
    worked(amity("report", "a", "--out", "half.html"))

    worked(amity("run", "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")
    assert tree(tmp_path / "a").keys() == tree(tmp_path / "b").keys()
    plain = [[{**line, "seconds": None} for line in lines(tmp_path / name)] for name in ("a", "b")]
    assert plain[0] == plain[1]


def test_interrupted_in_round_1_a_run_is_readable_and_resumes(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(cli, "shown", interrupting("train", 0))
        assert amity("run", "fedavg", *TINY, "--out", "a").code == 130
    assert record.read(tmp_path / "a").lines == []
    worked(amity("report", "a", "--out", "none.html"))
    worked(amity("run", "fedavg", "--out", "a", "--resume"))
    worked(amity("run", "fedavg", *TINY, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")


def test_an_interrupted_comparison_resumes(amity: Amity, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = ["compare", "separate", "fedavg", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr(cli, "shown", interrupting("round", 1))
        assert amity(*words, "--out", "a").code == 130
    assert not (tmp_path / "a" / "fedavg").exists()
    worked(amity(*words, "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    for name in ("separate", "fedavg"):
        assert summary(tmp_path / "a" / name) == summary(tmp_path / "b" / name)


@pytest.mark.parametrize("given", ["run separate", "compare separate fedavg"])
def test_what_is_said_after_ctrl_c_continues_the_run(
    amity: Amity, monkeypatch: pytest.MonkeyPatch, given: str, tmp_path: Path
) -> None:
    """Where --out was left to us too; and with --resume alone the run goes on as it was begun."""
    words = with_tiny(f"{given} --batch 7 --lr 0.02")
    with monkeypatch.context() as patch:
        patch.setattr(cli, "shown", interrupting("round", 1))
        said = amity(*words)
    assert said.code == 130
    command = said.err.split("this continues it: ")[1].splitlines()[0]
    first, *again = shlex.split(command)
    assert first == "amity" and again == [*words, "--resume"]
    (target,) = (tmp_path / "runs").iterdir()
    shutil.copytree(target, tmp_path / "copy")
    worked(amity(*again))
    worked(amity(*given.split(), "--resume", "--out", "copy"))
    worked(amity(*words, "--out", "whole"))
    places = [Path()] if given.startswith("run") else [Path("separate"), Path("fedavg")]
    for place in places:
        assert summary(target / place) == summary(tmp_path / "whole" / place)
    assert summary(tmp_path / "copy" / places[0]) == summary(tmp_path / "whole" / places[0])
    # One that had not begun is given what others were, but not their rates.
    configs = [record.read(tmp_path / name / places[-1]).config for name in ("copy", "whole")]
    assert [(config["rounds"], config["clients"]) for config in configs] == [(2, 3)] * 2


def test_a_resumed_run_names_the_value_that_was_given(amity: Amity, tmp_path: Path, finished: Path) -> None:
    """Not one that follows from it, as the batch size does from the silos."""
    shutil.copytree(finished, tmp_path / "held")
    (tmp_path / "other.toml").write_text('method = "pfedatt"\nclients = 9\nbatch = 3\n')
    refused(amity("run", "--config", "other.toml", "--out", "held", "--resume"), "clients = ", "got 9")
    worked(amity("run", "--out", "held", "--resume", "--checkpoint-every", "0"))


def test_a_run_needs_a_name_for_its_directory(amity: Amity, tmp_path: Path) -> None:
    for command in (["run", "separate"], ["compare", "separate", "fedavg"]):
        refused(amity(*command, *TINY, "--out", ""), "--out", "empty")
    assert not list(tmp_path.iterdir())


def test_resume_continues_a_finished_run_for_more_rounds(amity: Amity, tmp_path: Path) -> None:
    worked(amity("run", "separate", *TINY, "--out", "a"))
    first = lines(tmp_path / "a")
    worked(amity("run", "separate", "--out", "a", "--resume", "--rounds", "4"))
    worked(amity(*with_tiny("run separate --rounds 4"), "--out", "b"))
    assert lines(tmp_path / "a")[:2] == first
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")


def test_resuming_a_finished_run_changes_nothing(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "a")
    worked(amity("run", "--out", "a", "--resume"))
    assert tree(tmp_path / "a", but="report.html") == tree(finished)


def test_ctrl_c_ends_a_real_process_cleanly(amity: Amity, tmp_path: Path) -> None:
    words = with_tiny("run heurfedamp --clients 4 --rounds 16 --epochs 4")
    # Installed anew: a shell may have started us with SIGINT ignored, which children inherit.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import amity.cli as c; c.main()"
    command = [sys.executable, "-c", program, *words, "--out", "a"]
    written = tmp_path / "a" / "rounds.jsonl"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for _ in range(6000):
                if process.poll() is not None or (written.exists() and written.read_bytes().count(b"\n") >= 2):
                    break
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err and "--resume" in err
    half = record.read(tmp_path / "a")
    assert 2 <= len(half.lines) < 16
    assert half.results["rounds"] == len(half.lines)

    worked(amity("run", "--out", "a", "--resume"))
    worked(amity(*words, "--out", "b"))
    assert summary(tmp_path / "a") == summary(tmp_path / "b")
    assert models(tmp_path / "a") == models(tmp_path / "b")


# What is shown --------------------------------------------------------------------------------------------------


def test_on_a_terminal_progress_is_shown(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(cli_progress, "err", Console(file=screen, force_terminal=True, width=120))
    worked(amity("run", "pfedatt", *TINY, "--set", "k=99", "--out", "a"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "round 2/2" in shown and "pfedatt" in shown and "left" in shown
    assert shown.count("clipped to 3") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_waiting_for_a_core_is_said_once(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(cli_progress, "err", Console(file=screen, force_terminal=terminal, width=120))
    ready = prepare(Run("fedavg", data="digits", rounds=1), deal(load("digits"), "iid", 2, seed=0))
    with cli_progress.shown(ready) as (notify, _):
        for _ in range(3):
            notify("wait", 1, 2)
        notify("train", 0, 2)
    assert (
        screen.getvalue().count("fedavg: 1 of 2 workers have not begun: other work may keep the Ray cluster busy") == 1
    )


def test_methods_are_listed_with_paper_and_options(amity: Amity) -> None:
    said = amity("methods")
    worked(said)
    names = [line.split()[0] for line in said.out.splitlines() if line.strip() and not line.startswith(" ")]
    assert set(METHODS) <= set(names)
    found = json.loads(amity("methods", "--json").out)
    assert list(found) == list(METHODS)
    for name, row in found.items():
        assert (row["title"], row["paper"]) == (METHODS[name].title, METHODS[name].paper)
        assert [option["name"] for option in row["options"]] == [option["name"] for option in options_of(name)]
        assert all(option["help"] and option["rule"] for option in row["options"])
        assert all(f"{option['name']}={option['default']}" in said.out for option in row["options"])


@pytest.mark.parametrize(("command", "table"), [("datasets", SOURCES), ("settings", SETTINGS)])
def test_data_sets_and_settings_are_listed(amity: Amity, command: str, table: dict[str, Any]) -> None:
    said = amity(command)
    worked(said)
    words = [line.split()[0] for line in said.out.splitlines() if line.strip()]
    assert set(table) <= set(words)
    found = json.loads(amity(command, "--json").out)
    assert list(found) == list(table)
    assert all(row["title"] and row["description"] for row in found.values())


def test_settings_are_listed_with_their_options(amity: Amity) -> None:
    said = amity("settings").out
    found = json.loads(amity("settings", "--json").out)
    for name, row in found.items():
        assert [option["name"] for option in row["options"]] == [option["name"] for option in setting_options(name)]
        assert all(f"{option['name']}={option['default']}" in said for option in row["options"])
    assert (found["many"]["clients"], found["many"]["participation"]) == (500, 0.1)


def test_a_setting_can_be_looked_at(amity: Amity, tmp_path: Path) -> None:
    words = "settings dirichlet:alpha=0.1 --data synthetic --clients 6 --seed 3"
    said = amity(*words.split(), "--out", "here/picture.html")
    worked(said)
    expected = deal(load("synthetic"), "dirichlet:alpha=0.1", 6, seed=3).manifest()
    assert json.loads(amity(*words.split(), "--json").out) == expected
    rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines()}
    for silo in expected["silos"]:
        numbers = [sum(silo["train"]), sum(silo["test"]), *silo["train"]]
        assert rows[silo["name"]] == ["–", *(str(number) if number else "·" for number in numbers)]
    assert rows["sha256"] == [expected["sha256"]]
    assert "dirichlet:alpha=0.1,axis=class,min_size=10,test_from=shares on synthetic" in said.out
    page = (tmp_path / "here" / "picture.html").read_text(encoding="utf-8")
    assert "Who holds what" in page and "silo-05" in page
    assert list(tree(tmp_path)) == ["here", "here/picture.html"]
    refused(amity("settings", "--out", "x.html"), "SETTING")
    refused(amity("settings", "dirichlet:alpha=0"), "alpha")
    refused(amity("settings", "iid", "--clients", "none"), "clients")


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


def test_report_of_runs_and_of_a_comparison(amity: Amity, tmp_path: Path, finished: Path) -> None:
    shutil.copytree(finished, tmp_path / "one")
    worked(amity("compare", "separate", "fedavg", *TINY, "--out", "both"))
    (tmp_path / "both" / "report.html").unlink()
    before = tree(tmp_path)
    said = amity("report", "one", "both")
    worked(said)
    rows = [line.split()[0] for line in said.out.splitlines() if line.strip()]
    assert {"pfedatt", "separate", "fedavg"} <= set(rows)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in ("pfedatt", "separate", "fedavg"))
    worked(amity("report", "one", "--out", "elsewhere/one.html"))
    assert "separate" not in amity("report", "one").out
    assert tree(tmp_path, but="report.html").keys() == {*before, "elsewhere", "elsewhere/one.html"}
    assert {name: content for name, content in tree(tmp_path).items() if name in before} == before


def test_version_and_help(amity: Amity) -> None:
    assert amity("--version") == Said(0, f"{version('amity')}\n", "")
    for words in (["--help"], []):
        said = amity(*words)
        worked(said)
        assert all(
            f"\n  {name} " in said.out for name in ("run", "compare", "report", "methods", "datasets", "settings")
        )


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_option_has_a_help_line(amity: Amity, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = amity(command, "--help")
    worked(said)
    flags = {match[1]: match[2] for match in re.finditer(r"^ +(--[a-z-]+)(.*)$", said.out, re.MULTILINE)}
    wanted = {"--" + name.replace("_", "-") for name in fields_of(Run)} - {"--method"}
    assert wanted | {"--config", "--set", "--out", "--resume", "--force", "--data-dir"} <= flags.keys()
    described = re.sub(r"\n {20,}", "  ", said.out)  # a long metavar sends its help to the next line
    for flag in wanted:
        assert re.search(rf"^ +{flag} +\S+ +\S+.*", described, re.MULTILINE), flag


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["--version"]])
def test_help_does_not_load_torch(words: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "amity.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "amity" in loaded and "typer" in loaded
    assert not loaded & {"torch", "numpy", "sklearn", "scipy", "plotly", "matplotlib", "nvflare", "ray"}


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("amity")
    if not script.exists():
        pytest.skip("amity is not installed beside this Python")
    done = subprocess.run([script, "run", "fedamq"], capture_output=True, text=True)
    refused(Said(done.returncode, done.stdout, done.stderr), "did you mean fedamp")
