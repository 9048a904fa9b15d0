"""A runner runs what is missing, skips what is recorded, and goes on after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.small_experiment import DIVERGES, SMALL, note_rounds, note_runs, stop_after_a_round

import amity
from amity.config.run import Run
from amity.data.sets import fetch as fetching
from amity.errors import InputError
from amity.left_out import without
from amity.papers import outcome, reproduce, spec, tables
from amity.prepare import silos_of


def test_runs_what_is_missing_and_nothing_twice(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    calls: list[str] = []
    runner = reproduce.Runner(tmp_path / "out", watch=note_runs(calls))
    assert reproduce.missing(experiment, "cpu", tmp_path / "out") == reproduce.total(experiment, "cpu") == 5
    runner.run_missing(experiment, "cpu")
    assert len(calls) == len(set(calls)) == 5
    assert reproduce.missing(experiment, "cpu", tmp_path / "out") == 0
    runner.run_missing(experiment, "cpu")
    assert len(calls) == 5
    runner.run_missing(experiment, "quick")  # shares the first column's first seed
    assert len(set(calls)) == len(calls)
    assert reproduce.missing(experiment, "quick", tmp_path / "out") == 0
    assert not (tmp_path / "out" / reproduce.UNDER_WAY).exists()


def test_the_rate_with_the_better_validation_score_is_used(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    runner = reproduce.Runner(tmp_path)
    cell = experiment.cell("cpu", "scaffold", "a")
    assert [run.val_fraction for _, run in cell.trials()] == [spec.VALIDATION_SHARE] * 2
    runner.run_missing(spec.only(experiment, ["scaffold"], ["a"]), "cpu")
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    assert results.chosen == {("scaffold", "a"): (0.05, ())}  # a rate of 1e-7 learns nothing
    (final,) = results.seeds("scaffold", "a")
    assert final.content["resolved"]["lr"] == 0.05
    assert final.content["resolved"]["val_fraction"] == 0


def test_where_less_is_better_the_rate_with_the_smaller_error_is_used(root: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i / 7},{i / 3 - 2}\n" for i in range(40))
        (tmp_path / "own" / f"{name}.csv").write_text(f"dose,target\n{rows}")
    data = f'data = "folder:{tmp_path / "own"}"\nmetric = "rmse"'
    text = SMALL.replace('data = "digits"\nsetting = "practical"\nclients = 5', data).replace(
        "[rows.scaffold]", "[rows.fedavg]"
    )
    (root / "us" / "small.toml").write_text(text)
    experiment = spec.read("us/small", root)
    reproduce.Runner(tmp_path / "out").run_missing(spec.only(experiment, ["fedavg"], ["a"]), "cpu")
    results = reproduce.recorded(experiment, "cpu", tmp_path / "out")
    assert results.chosen == {("fedavg", "a"): (0.05, ())}  # a rate of 1e-7 learns nothing


ENDED = SMALL.replace("epochs = 1", "epochs = 1\nending = 2").replace(
    "[rows.scaffold]\n", '[rows.best]\nbest_of = ["fedavg", "ditto"]\n[rows.ditto]\nchoose.lr = [1e-8]\n[rows.fedavg]\n'
)
"""Values that are chosen for runs with an ending; a row that is the better one of two."""


def test_before_an_ending_values_are_chosen_by_what_is_delivered_after_it(root: Path, tmp_path: Path) -> None:
    """On training examples that neither the rounds nor the ending see: test data have no part in it."""
    (root / "us" / "small.toml").write_text(ENDED)
    experiment = spec.only(spec.read("us/small", root), ["fedavg", "ditto", "best"], ["a"])
    cell = experiment.cell("cpu", "fedavg", "a")
    assert reproduce.missing(experiment, "cpu", tmp_path) == reproduce.total(experiment, "cpu") == 3 + 2
    runner = reproduce.Runner(tmp_path)
    runner.run_missing(experiment, "cpu")
    assert reproduce.missing(experiment, "cpu", tmp_path) == 0
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    assert {row: choice.value for (row, _), choice in results.chosen.items()} == {"fedavg": 0.05, "ditto": 1e-8}
    silos = silos_of(cell.run(0, 0.05))
    held = without(silos, 0, 0)
    for value, run in cell.trials():
        trial = outcome.read(tmp_path / reproduce.LEFT_OUT, run)
        there = amity.run(run, held)
        assert trial is not None and trial.last == pytest.approx(there.summary["delivered"], abs=1e-4)
        assert outcome.read(tmp_path, run) is None or value == 0.05  # the run itself is that of the chosen value
    (best,), (fedavg,) = results.seeds("best", "a"), results.seeds("fedavg", "a")
    assert best.path == fedavg.path  # Ditto with its rate learns nothing
    told = "\n".join(tables.make(experiment.outputs[0], results)[0])
    assert "best" in told and "fedavg on A lr = 0.05" in told


def test_the_best_of_several_waits_for_every_trial(root: Path, tmp_path: Path) -> None:
    (root / "us" / "small.toml").write_text(ENDED)
    experiment = spec.read("us/small", root)
    reproduce.Runner(tmp_path).run_missing(spec.only(experiment, ["fedavg"], ["a"]), "cpu")
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    assert results.seeds("fedavg", "a") and not results.seeds("best", "a")


def test_a_row_that_chooses_nothing_cannot_be_the_best(root: Path) -> None:
    (root / "us" / "small.toml").write_text(ENDED.replace('["fedavg", "ditto"]', '["fedavg", "separate"]'))
    with pytest.raises(InputError, match="takes the best of rows that choose a value, got separate in rows.best"):
        spec.read("us/small", root)


def test_a_value_that_diverges_after_its_trial_gives_way_to_the_next(root: Path, tmp_path: Path) -> None:
    """A rate of 100 is ahead after a round, as 1e-7 learns nothing; in ten rounds SCAFFOLD's sums overflow."""
    (root / "us" / "small.toml").write_text(DIVERGES)
    experiment = spec.only(spec.read("us/small", root), ["scaffold"], ["a"])
    calls: list[str] = []
    runner = reproduce.Runner(tmp_path, watch=note_runs(calls))
    assert reproduce.missing(experiment, "cpu", tmp_path) == 3
    runner.run_missing(experiment, "cpu")
    assert len(calls) == 4 and reproduce.missing(experiment, "cpu", tmp_path) == 0
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    value, ((first, said),) = results.chosen["scaffold", "a"]
    assert (value, first) == (1e-07, 100.0) and said.startswith("diverged in round ")
    (final,) = results.seeds("scaffold", "a")
    assert final.content["resolved"]["lr"] == 1e-07 and not final.diverged
    told = "\n".join(tables.make(experiment.outputs[0], results)[0])
    assert f"scaffold on A lr = 1e-07 (first on validation data was 100.0, which {said})." in told
    runner.run_missing(experiment, "cpu")
    assert len(calls) == 4


def test_where_every_value_diverges_the_first_stays_and_that_is_said(root: Path, tmp_path: Path) -> None:
    (root / "us" / "small.toml").write_text(DIVERGES.replace("1e-7", "90.0"))
    experiment = spec.only(spec.read("us/small", root), ["scaffold"], ["a"])
    reproduce.Runner(tmp_path).run_missing(experiment, "cpu")
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    chosen = results.chosen["scaffold", "a"]
    assert {value for value, _ in chosen.passed_over} == {90.0, 100.0}
    (final,) = results.seeds("scaffold", "a")
    assert final.content["resolved"]["lr"] == chosen.value and final.diverged
    assert "with every value the run diverged" in "\n".join(tables.make(experiment.outputs[0], results)[0])
    assert reproduce.missing(experiment, "cpu", tmp_path) == 0


def test_an_interrupted_experiment_goes_on(root: Path, tmp_path: Path) -> None:
    """Stopped after the first round of the first run: the second start continues it, and the results are equal."""
    experiment = spec.only(spec.read("us/small", root), ["heurfedamp"], ["a"])
    begun: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        reproduce.Runner(tmp_path / "one", watch=stop_after_a_round).run_missing(experiment, "cpu")
    reproduce.Runner(tmp_path / "one", watch=note_rounds(begun)).run_missing(experiment, "cpu")
    assert begun == [2]
    reproduce.Runner(tmp_path / "two").run_missing(experiment, "cpu")
    one, two = (reproduce.recorded(experiment, "cpu", tmp_path / name) for name in ("one", "two"))
    first, second = one.first("heurfedamp", "a"), two.first("heurfedamp", "a")
    assert first is not None and second is not None
    assert first.content["best"] == second.content["best"] and first.rounds == second.rounds


def test_data_that_cannot_be_had_are_missed_before_the_first_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object) -> None:
        raise InputError("no network")

    monkeypatch.setattr(fetching, "fetch", offline)
    monkeypatch.setenv("AMITY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (root / "us" / "small.toml").write_text(SMALL.replace("batch = 10", "data = 'pathmnist'"))
    experiment = spec.read("us/small", root)
    calls: list[str] = []
    runner = reproduce.Runner(tmp_path / "out", str(tmp_path), watch=note_runs(calls))
    with pytest.raises(InputError, match="pathmnist needs"):
        runner.run_missing(experiment, "quick")
    assert not calls
    runner.run_missing(experiment, "cpu")  # has the other column only
    assert len(calls) == 5


def test_labels_are_part_of_which_silos_are_dealt(tmp_path: Path) -> None:
    """One folder, first as classes, then as quantities: the second run must not see the first one's silos."""
    (tmp_path / "own").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i / 7},{i % 3}\n" for i in range(30))
        (tmp_path / "own" / f"{name}.csv").write_text(f"dose,target\n{rows}")
    runner = reproduce.Runner(tmp_path / "out")
    runs = [
        Run(method="separate", data=f"folder:{tmp_path / 'own'}", model="mlr", rounds=1, epochs=1, labels=kind)
        for kind in ("classes", "quantities")
    ]
    classes, quantities = ((runner.run(run).content["metrics"] or {})["best_on_test"] or {} for run in runs)
    assert "macro_f1" in classes and "rmse" in quantities and "rmse" not in classes
