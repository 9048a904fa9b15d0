"""`amity compare`: each run as it would be alone, a table and a report."""

from __future__ import annotations

import shutil
from pathlib import Path

from cli.commands import TINY, Amity, config, lines, models, refused, summary, tree, worked


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


def test_a_comparison_writes_its_runs_a_table_and_a_report(amity: Amity, tmp_path: Path) -> None:
    said = amity("compare", "separate", "fedavg", "pfedatt", *TINY, "--out", "both")
    worked(said)
    assert sorted(p.name for p in (tmp_path / "both").iterdir()) == [
        *("fedavg", "pfedatt", "report.html", "results.json", "separate"),
    ]
    table = [line for line in said.out.splitlines() if line.split()[:1] in (["separate"], ["fedavg"], ["pfedatt"])]
    for name, row in zip(("separate", "fedavg", "pfedatt"), table, strict=True):
        assert row.split()[0] == name
        assert f"{summary(tmp_path / 'both' / name)['delivered']:.2f}" in row
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


def test_momentum_in_a_comparison_is_every_methods_own_or_what_it_is_told(amity: Amity, tmp_path: Path) -> None:
    words = ["compare", "fedavg", "scaffold", "apple", *TINY, "--optimizer", "sgd", "--set", "fedavg.momentum=0.5"]
    worked(amity(*words, "--out", "all"))
    found = [config(tmp_path / "all" / name)["momentum"] for name in ("fedavg", "scaffold", "apple")]
    assert found == [0.5, 0, 0.9]
    # Resumed, a method that had not begun has its own again, whatever the others have.
    shutil.rmtree(tmp_path / "all" / "fedavg")
    worked(amity("compare", "fedavg", "scaffold", "apple", "--out", "all", "--resume"))
    assert config(tmp_path / "all" / "fedavg")["momentum"] == 0


def test_a_comparison_from_a_config_file(amity: Amity, tmp_path: Path) -> None:
    text = 'methods = ["separate", "pfedatt"]\ndata = "synthetic"\nsetting = "iid"\nclients = 3\nmodel = "mlr"\n'
    (tmp_path / "c.toml").write_text(text + "rounds = 1\nepochs = 1\n[set]\nk = 2\n")
    worked(amity("compare", "--config", "c.toml", "--out", "both"))
    assert config(tmp_path / "both" / "pfedatt")["set"]["k"] == 2
    assert len(lines(tmp_path / "both" / "separate")) == 1
