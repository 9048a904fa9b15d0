"""`amity tune` on the command line."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from cli.commands import Amity, clinics, config, lines, refused, with_tiny, worked

from amity import Run
from amity.cli import plan
from amity.trials import command_of


def command_in(text: str) -> list[str]:
    """Return the words of the command that the output ends with, without the program's name."""
    words = shlex.split(text.splitlines()[-1])
    assert words[0] == "amity"
    return words[1:]


def test_it_ends_with_a_command_that_runs_the_best(amity: Amity) -> None:
    said = amity(*with_tiny("tune fedprox --trials 3 --search lr=0.001:0.1:log --search mu=0.01,0.1 --out t"))
    worked(said)
    assert said.err.count("fedprox trial ") == 3 and "trial 3/3" in said.err
    assert "Accuracy % on validation" in said.out and "run the best, and see it on test data:" in said.out
    worked(amity(*command_in(said.out), "--out", "best"))
    best = config(Path("best"))
    assert best["val_fraction"] == 0.15
    rows = Path("t/trials.csv").read_text().splitlines()
    top = max((float(row.split(",")[2]) for row in rows[1:]), default=0.0)
    assert max(line["val"] for line in lines(Path("best"))) == pytest.approx(top, abs=1e-4)
    worked(amity("run", "--config", "t/best.toml", "--out", "same"))
    assert {**config(Path("same"))} == best


def test_options_that_are_given_stay_and_the_rest_is_searched(amity: Amity) -> None:
    said = amity(*with_tiny("tune fedamp --trials 1 --lr 0.02 --set sigma=3 --out t"))
    worked(said)
    assert "alpha=" in said.err and "lr=" not in said.err and "sigma=" not in said.err and "epochs=" not in said.err
    words = command_in(said.out)
    assert words[words.index("--lr") + 1] == "0.02" and "sigma=3" in words


def test_silos_of_ones_own_and_more_trials_later(amity: Amity, tmp_path: Path) -> None:
    clinics(tmp_path / "own silos")
    words = ["tune", "fedavg", "--data", "folder:own silos", "--rounds", "1", "--search", "lr=0.1,0.01,0.001"]
    first = amity(*words, "--trials", "2", "--out", "t")
    worked(first)
    second = amity(*words, "--trials", "9", "--out", "t")  # there are three
    worked(second)
    assert (first.err.count(" trial "), second.err.count(" trial ")) == (2, 1)
    assert "3 trials" in second.out and "'folder:own silos'" in second.out


def test_what_is_wrong_is_one_line_and_leaves_nothing(amity: Amity) -> None:
    refused(amity(*with_tiny("tune")), "tune needs a METHOD")
    refused(amity(*with_tiny("tune fedamq --out t")), "unknown method 'fedamq'")
    refused(amity(*with_tiny("tune fedamp --search lr=3:1 --search x=1 --out t")), "lr=3:1 needs", "x is no option")
    refused(amity(*with_tiny("tune fedamp --val-fraction 0 --out t")), "tune chooses by validation data")
    refused(amity(*with_tiny("tune fedamp --trials 0 --out t")), "of at least 1")
    refused(amity(*with_tiny("tune fedamp --seeds x --out t")), "seeds needs FIRST:END")
    assert not Path("t").exists()


def test_optuna_is_asked_for_where_it_is_missing(amity: Amity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    refused(amity(*with_tiny("tune fedamp --out t")), "amity tune needs optuna", "pip install 'amity[tune]'")


def test_the_command_says_everything_that_the_run_says() -> None:
    settings = {"sigma": 1 / 3, "self_weight": "softmax", "group_counts_self": True}
    one = Run("fedamp", data="folder:a b", lr=0.1, epochs=2, train_loss=True, seed=4, workers=2, settings=settings)
    words = shlex.split(command_of(one, "my data"))
    assert words[:5] == ["amity", "run", "fedamp", "--data", "folder:a b"]
    assert words[-2:] == ["--data-dir", "my data"] and "--workers" not in words
    pairs = zip(words[3:-2:2], words[4:-2:2], strict=True)
    flags = [(flag[2:].replace("-", "_"), text) for flag, text in pairs]
    own = [text for flag, text in flags if flag == "set"]
    again = plan.runs_of(["fedamp"], dict(pair for pair in flags if pair[0] != "set"), {}, own)
    assert again == [replace(one, workers="auto")]
