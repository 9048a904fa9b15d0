"""`amity reproduce`: runs what is missing, skips what is recorded, goes on after an interruption."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from amity import cli_reproduce
from amity.cli import main
from amity.config import Run
from amity.data import sources
from amity.errors import InputError
from amity.experiments import outcome, reproduce, spec
from amity.record import holds_run
from amity.run import carry_out

SMALL = """
id = "T1"
title = "A small table"
paper = "Somebody, 2026"

[run]
data = "digits"
setting = "practical"
clients = 5
model = "mlr"
rounds = 2
epochs = 1

[columns.a]
label = "A"
[columns.b]
label = "B"
batch = 10

[rows.separate]
label = "Alone"
[rows.heurfedamp]
[rows.scaffold]
choose.lr = [1e-7, 0.05]
choose_rounds = 1

[paper_values]
separate = { a = 12.34 }

[sizes.quick]
seeds = 2
[sizes.cpu]
columns = ["a"]

[[outputs]]
kind = "table"
[[outputs]]
kind = "wilcoxon"

[[claims]]
text = "alone is better"
above = ["separate"]
below = ["heurfedamp"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "from" / "us").mkdir(parents=True)
    (tmp_path / "from" / "us" / "small.toml").write_text(SMALL)
    return tmp_path / "from"


def _cli(*words: object) -> int:
    import sys

    old, sys.argv = sys.argv, ["amity", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = old
    return 0


def _carry(calls: list[str]) -> reproduce.Carry:
    def carry(prepared: object, place: Path) -> None:
        calls.append(place.name)
        carry_out(prepared, out=place, resume=holds_run(place))  # type: ignore[arg-type]

    return carry


def test_runs_what_is_missing_and_nothing_twice(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    calls: list[str] = []
    runner = reproduce.Runner(tmp_path / "out", _carry(calls))
    assert reproduce.missing(experiment, "cpu", tmp_path / "out") == reproduce.total(experiment, "cpu") == 5
    runner.complete(experiment, "cpu")
    assert len(calls) == len(set(calls)) == 5
    assert reproduce.missing(experiment, "cpu", tmp_path / "out") == 0
    runner.complete(experiment, "cpu")
    assert len(calls) == 5
    runner.complete(experiment, "quick")  # shares the first column's first seed
    assert len(set(calls)) == len(calls)
    assert reproduce.missing(experiment, "quick", tmp_path / "out") == 0
    assert not (tmp_path / "out" / reproduce.UNDER_WAY).exists()


def test_the_recorded_outcome_is_the_runs_own(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    runner = reproduce.Runner(tmp_path / "out", _carry([]), keep_runs=True)
    run = experiment.cell("cpu", "heurfedamp", "a").run(0)
    kept = runner.once(run)
    again = outcome.read(tmp_path / "out", run)
    assert again is not None and again.content == json.loads(kept.path.read_text())
    from amity.record import read

    record = read(tmp_path / "out" / reproduce.UNDER_WAY / spec.key_of(run))
    assert again.bmta == pytest.approx(record.results["bmta"], abs=1e-4)
    assert again.accuracies == pytest.approx(record.results["per_client"], abs=1e-4)
    for round, matrix in record.weights.items():
        np.testing.assert_allclose(again.weights[round], matrix, atol=1e-3)
    assert again.rounds["round"] == [1, 2]
    counts = [sum(silo["test"]) for silo in (record.manifest or {})["silos"]]
    pooled = sum(a * n for a, n in zip(record.lines[-1]["accuracy"], counts, strict=True)) / sum(counts)
    assert again.rounds["pooled"][-1] == pytest.approx(pooled, abs=1e-4)


def test_the_rate_with_the_better_validation_score_is_used(root: Path, tmp_path: Path) -> None:
    experiment = spec.read("us/small", root)
    runner = reproduce.Runner(tmp_path, _carry([]))
    cell = experiment.cell("cpu", "scaffold", "a")
    assert [run.val_fraction for _, run in cell.trials()] == [spec.VALIDATION] * 2
    runner.complete(spec.only(experiment, ["scaffold"], ["a"]), "cpu")
    results = reproduce.recorded(experiment, "cpu", tmp_path)
    assert results.chosen == {("scaffold", "a"): 0.05}  # a rate of 1e-7 learns nothing
    (final,) = results.seeds("scaffold", "a")
    assert final.content["resolved"]["lr"] == 0.05
    assert final.content["resolved"]["val_fraction"] == 0


def test_an_interrupted_experiment_goes_on(root: Path, tmp_path: Path) -> None:
    """Stopped after the first round of the first run: the second start continues it, and the results are equal."""
    experiment = spec.only(spec.read("us/small", root), ["heurfedamp"], ["a"])
    begun: list[int] = []

    def stopping(prepared: object, place: Path) -> None:
        def stop(line: dict[str, object]) -> None:
            raise KeyboardInterrupt

        carry_out(prepared, out=place, on_round=stop)  # type: ignore[arg-type]

    def continuing(prepared: object, place: Path) -> None:
        carry_out(
            prepared,  # type: ignore[arg-type]
            out=place,
            resume=holds_run(place),
            on_round=lambda line: begun.append(line["round"]),
        )

    with pytest.raises(KeyboardInterrupt):
        reproduce.Runner(tmp_path / "one", stopping).complete(experiment, "cpu")
    reproduce.Runner(tmp_path / "one", continuing).complete(experiment, "cpu")
    assert begun == [2]
    reproduce.Runner(tmp_path / "two", _carry([])).complete(experiment, "cpu")
    one, two = (reproduce.recorded(experiment, "cpu", tmp_path / name) for name in ("one", "two"))
    first, second = one.first("heurfedamp", "a"), two.first("heurfedamp", "a")
    assert first is not None and second is not None
    assert first.content["best"] == second.content["best"] and first.rounds == second.rounds


def test_the_command_writes_the_table_beside_the_papers_numbers(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert _cli("reproduce", "us", "--from", root, "--out", out, "--size", "cpu", "--rows", "separate,heurfedamp") == 0
    told = capsys.readouterr().out
    text = (out / "us" / "cpu" / "small.md").read_text()
    assert text.strip() in told
    assert "12.34" in text and "Alone" in text and "alone is better: **" in text
    with (out / "us" / "cpu" / "small.csv").open() as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    found = outcome.read(out, spec.read("us/small", root).cell("cpu", "separate", "a").run(0))
    assert found is not None
    assert float(rows["separate"]["bmta"]) == pytest.approx(found.bmta, abs=1e-3)
    assert rows["separate"]["paper"] == "12.34" and rows["heurfedamp"]["paper"] == ""
    assert (out / "us" / "cpu" / "small-wilcoxon.csv").exists()
    assert _cli("reproduce", "--from", root, "--out", out, "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["name"] == "us/small" and listed["cpu"] == {"runs": 5, "recorded": 2}
    monkeypatch.setattr(cli_reproduce, "out", Console(width=20))
    assert _cli("reproduce", "--from", root, "--out", out) == 0
    told = capsys.readouterr().out
    assert "us/small" in told and "2/5" in told and "…" not in told
    assert _cli("reproduce", "us/small", "--from", root, "--out", out, "--json") == 2
    assert capsys.readouterr().err.startswith("amity: --json is for the list")


def test_a_part_that_is_run_does_not_take_the_place_of_the_whole(root: Path, tmp_path: Path) -> None:
    words = ("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--size", "cpu", "--rows")
    for row in ("separate", "heurfedamp"):
        assert _cli(*words, row) == 0
    with (tmp_path / "out" / "us" / "cpu" / "small.csv").open() as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["separate", "heurfedamp"]


def test_no_run_shows_what_is_there(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--no-run") == 0
    assert not (tmp_path / "out").exists()
    assert "0 of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody/nothing"], "unknown experiment 'nobody/nothing'"),
        (["us/small", "--size", "huge"], "unknown size of us/small: 'huge'"),
        (["us/small", "--rows", "nobody"], "unknown row of us/small: 'nobody'"),
        (["us/small", "--columns", "a,,b"], "--columns needs names"),
        (["us/small", "--size", "cpu", "--columns", "b"], "size cpu of us/small does not run b, it runs a"),
    ],
)
def test_mistakes_get_one_line(
    words: list[str], said: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli("reproduce", *words, "--from", root, "--out", tmp_path / "out") == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in complaint and complaint.startswith("amity: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('text = "alone is better"\n', "", "text in every"),
        ('[[outputs]]\nkind = "table"', '[[outputs]]\nname = "table"', "kind in every"),
        ("seeds = 2", 'seeds = "two"', "seeds to be a whole number above 0, got 'two'"),
        ("[columns.b]\n", "[columns]\nb = 1\n[other.b]\n", "columns"),
        ("[sizes.cpu]\n", "[sizes.cpu]\nof = 3\n", "sizes.cpu.of to be a table"),
        ("rounds = 2", "rounds = -2", "rounds to be a whole number >= 1"),
        ("epochs = 1", "lr = nan", "lr to be a number > 0"),
        ("[rows.heurfedamp]", "[rows.heurfedamp]\nset.sigmo = 1.0", "sigmo"),
        ("batch = 10", "data = 'digitz'", "unknown data set 'digitz'"),
        ("batch = 10", "data = 'folder:nowhere'", "nowhere"),
        ("batch = 10", "setting = 'practicle'", "unknown setting 'practicle'"),
        ("batch = 10", "model = 'mlq'", "unknown model 'mlq'"),
        ("batch = 10", "model = 'cnn-apple'", "cnn-apple needs images"),
        ("choose_rounds = 1", "optimizer = 'adam'", "scaffold needs the optimizer sgd, got adam"),
        ("choose.lr = [1e-7, 0.05]", "choose.set.bogus = [1]", "unknown option of scaffold 'bogus'"),
        ("choose.lr = [1e-7, 0.05]", "method = 'pfedme'\nchoose.lr = [0.01, 1.0]", "pfedme needs lr x attraction < 2"),
    ],
)
def test_a_malformed_experiment_gets_one_line_before_anything_runs(
    old: str, new: str, said: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in SMALL
    (root / "us" / "small.toml").write_text(SMALL.replace(old, new, 1))
    assert _cli("reproduce", "us/small", "--from", root, "--out", tmp_path / "out") == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert complaint.startswith("amity: ") and said in complaint
    assert not (tmp_path / "out").exists()


def test_data_that_cannot_be_had_are_missed_before_the_first_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object) -> None:
        raise InputError("no network")

    monkeypatch.setattr(sources, "fetch", offline)
    monkeypatch.setenv("AMITY_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (root / "us" / "small.toml").write_text(SMALL.replace("batch = 10", "data = 'pathmnist'"))
    experiment = spec.read("us/small", root)
    calls: list[str] = []
    runner = reproduce.Runner(tmp_path / "out", _carry(calls), str(tmp_path))
    with pytest.raises(InputError, match="pathmnist needs"):
        runner.complete(experiment, "quick")
    assert not calls
    runner.complete(experiment, "cpu")  # has the other column only
    assert len(calls) == 5


def test_a_broken_outcome_is_named(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = spec.read("us/small", root).cell("cpu", "separate", "a").run(0)
    path = outcome.path_of(tmp_path / "out", spec.key_of(run))
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert _cli("reproduce", "us/small", "--from", root, "--out", tmp_path / "out", "--size", "cpu") == 2
    assert str(path.name) in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("damage", ["{}", "[]", "null", "swapped", "shortened"])
def test_a_record_that_is_not_the_runs_own_is_named(
    damage: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment, out = spec.read("us/small", root), tmp_path / "out"
    runs = [experiment.cell("cpu", row, "a").run(0) for row in ("separate", "heurfedamp")]
    for run in runs:
        reproduce.Runner(out, _carry([])).once(run)
    mine, others = (outcome.path_of(out, spec.key_of(run)) for run in runs)
    if damage == "swapped":
        mine.write_text(others.read_text())
    elif damage == "shortened":
        content = json.loads(mine.read_text())
        del content["best"]
        mine.write_text(json.dumps(content))
    else:
        mine.write_text(damage)
    assert _cli("reproduce", "us/small", "--from", root, "--out", out, "--size", "cpu", "--no-run") == 2
    (complaint,) = capsys.readouterr().err.strip().splitlines()
    assert mine.name in complaint and "remove it to run" in complaint


def test_weights_that_cannot_be_read_are_named(root: Path, tmp_path: Path) -> None:
    run = spec.read("us/small", root).cell("cpu", "heurfedamp", "a").run(0)
    kept = reproduce.Runner(tmp_path, _carry([])).once(run)
    for content in (b"", b"PK", b"x" * 100):
        kept.path.with_suffix(".npz").write_bytes(content)
        with pytest.raises(InputError, match="remove it and"):
            _ = outcome.Outcome(kept.path, kept.content).weights


def test_what_is_in_the_way_of_results_gets_one_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (out / "us" / "cpu" / "small.md").mkdir(parents=True)
    words = ("us/small", "--from", root, "--out", out, "--size", "cpu", "--rows", "separate")
    assert _cli("reproduce", *words) == 2
    assert "small.md cannot be written" in capsys.readouterr().err.splitlines()[-1]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").write_text("")
    assert _cli("reproduce", *words[:4], tmp_path / "other", *words[5:]) == 2
    assert "runs cannot be written" in capsys.readouterr().err.splitlines()[-1]


def test_labels_are_part_of_which_silos_are_dealt(tmp_path: Path) -> None:
    """One folder, first as classes, then as quantities: the second run must not see the first one's silos."""
    (tmp_path / "own").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i / 7},{i % 3}\n" for i in range(30))
        (tmp_path / "own" / f"{name}.csv").write_text(f"dose,target\n{rows}")
    runner = reproduce.Runner(tmp_path / "out", _carry([]))
    runs = [
        Run(method="separate", data=f"folder:{tmp_path / 'own'}", model="mlr", rounds=1, epochs=1, labels=kind)
        for kind in ("classes", "quantities")
    ]
    classes, quantities = (runner.once(run).content["metrics"]["best"] for run in runs)
    assert "macro_f1" in classes and "rmse" in quantities and "rmse" not in classes


def test_a_run_that_measured_nothing_is_recorded(tmp_path: Path) -> None:
    """Quantities on which training diverges at once: the next rows of the table must still be run."""
    (tmp_path / "own").mkdir()
    for name in ("north", "south"):
        rows = "".join(f"{i / 7},{i % 4 + 0.5}\n" for i in range(30))
        (tmp_path / "own" / f"{name}.csv").write_text(f"dose,target\n{rows}")
    run = Run(
        method="separate", data=f"folder:{tmp_path / 'own'}", model="mlr", rounds=2, epochs=1, optimizer="sgd", lr=1e30
    )
    kept = reproduce.Runner(tmp_path / "out", _carry([])).once(run)
    assert math.isnan(kept.bmta) and math.isnan(kept.last)


def test_no_record_is_older_than_the_code() -> None:
    """Defaults are not part of a run's name: whoever changes one has to run again what was recorded with the old."""
    from amity.methods import build, settings_of

    home = spec.home() / "results"
    for path in sorted((home / "runs").glob("*.json")):
        content = json.loads(path.read_text())
        asked = content["asked"]
        now = settings_of(build(asked["method"], asked.get("set", {})))
        assert content["resolved"]["set"] == json.loads(json.dumps(now)), path.name


def test_a_key_names_what_matters_and_nothing_else() -> None:
    run = Run(method="separate")
    assert spec.key_of(run) == spec.key_of(Run(method="separate", workers=1, engine="loop", device="cpu"))
    others = [Run(method="fedavg"), Run(method="separate", seed=1), Run(method="separate", rounds=21)]
    others += [Run(method="separate", settings={"init": "independent"}), Run(method="separate", setting="iid")]
    keys = {spec.key_of(other) for other in (run, *others)}
    assert len(keys) == 1 + len(others)
