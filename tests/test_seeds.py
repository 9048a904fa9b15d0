"""Several seeds as one: what `--seeds` and `seeds=` run, and what they say of it."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.commands import without_alone
from four_silos import known
from hypothesis import given
from hypothesis import strategies as st
from report.reported_runs import Page
from scipy import stats

import amity
from amity import record
from amity.cli import app as cli
from amity.config.seeds import checked_seeds, seeds_of
from amity.report.series import series_of
from amity.report.table import p_values, rows

TINY = "--data synthetic --setting iid --clients 3 --model mlr --rounds 2 --epochs 1 --workers 1".split()


def run_amity(*words: str, at: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(at)
    monkeypatch.setattr(sys, "argv", ["amity", *without_alone(words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def silos() -> amity.Silos:
    rng = np.random.default_rng(0)
    rule = rng.normal(size=(4, 2))

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(size, 4)).astype("float32")
        return x, (x @ rule).argmax(1)

    return amity.own_silos({name: (*part(20), *part(15)) for name in ("a", "b", "c", "d", "e", "f", "g")})


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_a_span_leaves_out_its_end(first: int, count: int) -> None:
    assert seeds_of(f"{first}:{first + count}") == list(range(first, first + count))


def test_seeds_as_people_write_them() -> None:
    assert seeds_of("0:5") == [0, 1, 2, 3, 4] and seeds_of(" 3, 1,7 ") == [3, 1, 7] and seeds_of("4") == [4]
    assert checked_seeds(range(2)) == [0, 1]


@pytest.mark.parametrize("text", ["", "a", "3:3", "5:2", "1:", ":4", "0,0", "-1", "1.5", "0:2000", "0:1:2", "1" * 30])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(amity.InputError, match="seeds needs .* got .*: try"):
        seeds_of(text)


@pytest.mark.parametrize("seeds", [[], [1, 1], [-1], [0.5], [True], range(2000)])
def test_other_seeds_are_refused_in_python(seeds: list[int]) -> None:
    with pytest.raises(amity.InputError, match="seeds needs"):
        amity.run(amity.Run("fedavg"), silos(), seeds=seeds)


def test_seeds_in_python_are_the_runs_alone(tmp_path: Path) -> None:
    run = amity.Run("fedamp", rounds=2, epochs=1, workers=1)
    repeats = amity.run(run, silos(), seeds=[3, 5], out=tmp_path)
    alone = {seed: amity.run(amity.Run("fedamp", rounds=2, epochs=1, workers=1, seed=seed), silos()) for seed in (3, 5)}
    values = [alone[seed].best for seed in (3, 5)]
    assert tuple(repeats.best) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    assert [repeats[seed].best for seed in (3, 5)] == values
    of_a = [alone[seed].scores["a"] for seed in (3, 5)]
    assert tuple(repeats.scores["a"]) == pytest.approx((statistics.mean(of_a), statistics.stdev(of_a)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "seed-3", "seed-5"]
    written = json.loads((tmp_path / "results.json").read_text())["methods"]["fedamp"]
    assert written["seeds"] == [3, 5] and written["delivered"]["values"] == values
    assert written["delivered"]["deviation"] == pytest.approx(statistics.stdev(values))
    assert "2 seeds" in str(repeats) and "±" in str(repeats) and len(str(repeats).splitlines()) < 8
    with pytest.raises(amity.InputError, match="the seeds are 3, 5, got 4"):
        repeats[4]


def test_a_comparison_over_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("compare", "separate", "fedavg", *TINY, "--seeds", "0:3", "--out", "all")
    assert run_amity(*words, at=tmp_path, monkeypatch=monkeypatch) == 0
    places = [tmp_path / "all" / name / f"seed-{seed}" for name in ("separate", "fedavg") for seed in range(3)]
    records = [record.read(place) for place in places]
    separate, fedavg = series_of(records)
    assert (separate.name, separate.seeds, fedavg.name) == ("separate", [0, 1, 2], "fedavg")
    values = known(run.results["delivered"] for run in records[:3])
    row, _ = rows(records)
    assert row.delivered is not None
    assert tuple(row.delivered) == pytest.approx((statistics.mean(values), statistics.stdev(values)))
    said = capsys.readouterr().out
    assert f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" in said and "over 3 seeds" in said
    # Dealt anew, a silo of one seed is another in the next: nine pairs, and 2^n ways to give those that differ a sign.
    scores = [[value for run in runs for value in run.results["per_client"]] for runs in (records[:3], records[3:])]
    tests = p_values(records)
    assert tests is not None and sum(test is None for test in tests) == 1
    (test,) = [test for test in tests if test is not None]
    assert test.least == 2 / 2**9
    differences = [round(a - b, 9) for a, b in zip(*scores, strict=True) if a != b]
    ranks = stats.rankdata(np.abs(differences))
    signs = np.array(list(itertools.product((0, 1), repeat=len(ranks))))
    away = np.abs(signs @ ranks - ranks.sum() / 2)
    seen = abs(ranks[np.array(differences) > 0].sum() - ranks.sum() / 2)
    assert test.p == pytest.approx((away >= seen - 1e-9).mean())
    view = Page(tmp_path / "all" / "report.html").view
    assert [method["seeds"] for method in view["methods"]] == [[0, 1, 2]] * 2
    assert "fedavg, seed 2" in [run["name"] for run in view["runs"]]
    content = json.loads((tmp_path / "all" / "results.json").read_text())
    assert list(content["methods"]) == ["separate", "fedavg"]
    assert content["methods"]["separate"]["delivered"]["values"] == values
    assert any(found is not None and found["p"] == pytest.approx(test.p) for found in content["tests"].values())
    # The report can be made again from the directory, and a finished comparison resumed, with the same numbers.
    assert run_amity("report", "all", "--out", "again.html", at=tmp_path, monkeypatch=monkeypatch) == 0
    assert run_amity(*words, "--resume", at=tmp_path, monkeypatch=monkeypatch) == 0
    assert json.loads((tmp_path / "all" / "results.json").read_text()) == content


def test_a_seed_of_several_is_the_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        run_amity("run", "heurfedamp", *TINY, "--seeds", "1,4", "--out", "all", at=tmp_path, monkeypatch=monkeypatch)
        == 0
    )
    assert (
        run_amity("run", "heurfedamp", *TINY, "--seed", "4", "--out", "one", at=tmp_path, monkeypatch=monkeypatch) == 0
    )
    several, alone = record.read(tmp_path / "all" / "seed-4"), record.read(tmp_path / "one")
    assert several.results["per_client"] == alone.results["per_client"]
    assert several.config == alone.config


def test_natural_silos_count_once(tmp_path: Path) -> None:
    """Seven silos in three seeds are seven pairs, each with its mean, not twenty-one."""
    for name in ("separate", "fedavg"):
        run = amity.Run(name, rounds=2, epochs=1, workers=1)
        amity.run(run, silos(), seeds=range(3), out=tmp_path / name)
    records = [record.read(tmp_path / name / f"seed-{seed}") for name in ("separate", "fedavg") for seed in range(3)]
    tests = p_values(records)
    assert tests is not None
    assert [test.least for test in tests if test is not None] == [2 / 2**7]


def test_seed_and_seeds_are_not_given_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "fedavg", *TINY, "--seed", "1", "--seeds", "0:2")
    assert run_amity(*words, at=tmp_path, monkeypatch=monkeypatch) == 2
    assert "give one of them" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_several_seeds_are_not_resumed_as_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "fedavg", *TINY, "--out", "all")
    assert run_amity(*words, "--seeds", "0:2", at=tmp_path, monkeypatch=monkeypatch) == 0
    before = sorted(path.name for path in (tmp_path / "all").iterdir())
    assert run_amity(*words, "--resume", at=tmp_path, monkeypatch=monkeypatch) == 2
    assert "all holds runs of several seeds (seed-0, seed-1, ...): resume with --seeds too" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == before


def test_seeds_of_a_config_file_have_a_directory_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text('method = "fedavg"\nseeds = "3:5"\n')
    assert run_amity("run", "--config", "c.toml", *TINY, at=tmp_path, monkeypatch=monkeypatch) == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["fedavg-synthetic-iid-seeds-3-4"]


def test_seeds_stand_in_a_config_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.toml").write_text('method = "fedavg"\nseeds = [2, 6]\n')
    words = ("run", "--config", "c.toml", *TINY, "--out", "all")
    assert run_amity(*words, at=tmp_path, monkeypatch=monkeypatch) == 0
    assert (tmp_path / "all" / "seed-6" / "summary.json").exists()


def test_runs_of_other_seeds_side_by_side_become_one_row(tmp_path: Path) -> None:
    for seed in (0, 1):
        amity.run(amity.Run("fedavg", rounds=1, epochs=1, seed=seed), silos(), out=tmp_path / f"mine-{seed}")
    amity.run(amity.Run("fedavg", rounds=1, epochs=2, seed=2), silos(), out=tmp_path / "longer")
    records = [record.read(tmp_path / name) for name in ("mine-0", "mine-1", "longer")]
    first, second = series_of(records)
    assert (first.seeds, second.seeds) == ([0, 1], [2])
    assert len(series_of([records[0], records[0]])) == 2  # the same seed twice is no second seed


def test_the_first_word_comes_before_torch() -> None:
    """Loading torch takes seconds: somebody who waits must see at once that something happens."""
    program = (
        "import sys, builtins\n"
        "real = builtins.__import__\n"
        "def watch(name, *rest):\n"
        "    if name.partition('.')[0] == 'torch': raise SystemExit(99)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = watch\n"
        "sys.argv = ['amity', 'run', 'fedavg', '--out', '/nonexistent/x']\n"
        "from amity.cli.app import main\n"
        "main()"
    )
    screen, terminal = os.openpty()
    done = subprocess.run([sys.executable, "-c", program], stderr=terminal)
    os.close(terminal)
    said = os.read(screen, 10_000).decode()
    os.close(screen)
    assert done.returncode == 99 and "running fedavg" in said, said
