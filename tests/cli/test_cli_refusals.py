"""Bad input on the command line: refused in one line, with nothing written and nothing of the user's changed."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.commands import TINY, Amity, clinics, refused, tree, with_tiny
from safetensors.torch import save_file

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
    "--momentum": "-0.1 1 nan much",
    "--val-fraction": "-0.1 1",
    "--evaluate-every": "0 x",
    "--seed": "-1 x",
    "--workers": "0 -2",
    "--participation": "0 -0.5 1.5",
    "--drop": "-0.1 1 1.1",
    "--checkpoint-every": "-1",
    "--local-epochs-range": "9:1 0:3 3 a:b 1:2:3 :",
}


SETTINGS_OF_METHODS = {
    "run fedamp": "sigma=0 sigma=-1 sigma=nan alpha=0 attraction=-1 self_weight=2",
    "run heurfedamp": "sigma=0 sigma=-5",
    "run pfedatt": "k=0 k=-1 k=1.5 sigma=0 self_weight=2 self_weight=x mode=step",
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
    "momentum without sgd": ("run fedavg --momentum 0.9", "momentum 0.9", "fedavg's optimizer adam", "sgd"),
    "momentum against the equations": ("run scaffold --momentum 0.9", "scaffold needs plain sgd", "momentum 0.9"),
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


@pytest.mark.parametrize("words", ["comparr fedavg", "runn", "report", "report nowhere", "report .", "--verbose"])
def test_other_commands_refuse_in_one_line_too(amity: Amity, words: str, tmp_path: Path) -> None:
    refused(amity(*words.split()))
    assert tree(tmp_path) == {}


# Named in plain words: half of a character in a test's name cannot be sent to a process beside this one.
@pytest.mark.parametrize("evil", ["\x1b[31mred\x1b[0m", "\u202egnp.exe", "\udcff", "a\rb"], ids=ascii)
@pytest.mark.parametrize(
    "words", ["run separate --config", "run separate --init-from", "report", "federation status --hub"]
)
def test_what_is_said_does_nothing_to_a_terminal(amity: Amity, words: str, evil: str, tmp_path: Path) -> None:
    said = amity(*words.split(), evil, *(TINY if words.startswith("run") else ()))
    refused(said)
    assert said.err.removesuffix("\n").isprintable()
    assert tree(tmp_path) == {}


def test_a_value_of_any_length_is_told_in_a_line_that_can_be_read(amity: Amity) -> None:
    said = amity("run", "separate", "--rounds", "9" * 5000)
    refused(said, "run needs rounds to be a whole number")
    assert len(said.err) < 500


def test_text_that_cannot_be_written_down_is_refused(amity: Amity, tmp_path: Path) -> None:
    """Names of files may hold bytes that are no text; a run's configuration is text."""
    refused(amity("run", "separate", *TINY, "--ray-address", "\udcff", "--out", "made"), "ray_address", "UTF-8")
    assert tree(tmp_path) == {}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without an end")
@pytest.mark.parametrize(
    "words",
    [
        "run separate --config /dev/zero",
        "run separate --data folder:clinics --schema /dev/zero",
        "federation init /dev/zero --hub hub",
        "federation contract /dev/zero",
        "federation add /dev/zero --hub hub",
    ],
)
def test_a_file_without_an_end_is_not_read_to_its_end(amity: Amity, words: str, tmp_path: Path) -> None:
    clinics(tmp_path / "clinics")
    before = tree(tmp_path)
    refused(amity(*words.split()))
    assert tree(tmp_path) == before
