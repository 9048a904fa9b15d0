"""`amity predict`: rows in, predictions out; what cannot be done is one line."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli.commands import Amity, refused, worked
from record.rounds_by_hand import CONFIG, FACTS, SILOS, add_round

import amity as package
from amity.predicting.predictions import FOR_NEW_ROWS
from amity.record import Recorder

NEW = "ward,sugar,patient,pressure\na,1,p1,2\nb,1,p2,-3\n"


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Two new patients."""
    (tmp_path / "new.csv").write_text(NEW)
    return tmp_path / "new.csv"


def test_a_small_table_on_the_screen(amity: Amity, clinics: Path, new: Path) -> None:
    said = amity("predict", clinics, "--silo", "north", "--data", new)
    worked(said)
    head, first, second, note = said.out.splitlines()
    assert head.split() == ["row", "prediction", "p(ill)", "p(well)"]
    assert first.split()[:2] == ["0", "ill"] and second.split()[:2] == ["1", "well"]
    assert float(first.split()[2]) + float(first.split()[3]) == pytest.approx(1, abs=2e-3)
    assert note == "left out, not used by the model: ward, patient"


def test_all_rows_go_to_a_file_with_what_is_kept(amity: Amity, clinics: Path, new: Path, tmp_path: Path) -> None:
    words = ("predict", clinics, "--silo", "north", "--data", new, "--keep", "patient", "--keep", "ward")
    said = amity(*words, "--out", "out.csv")
    worked(said)
    assert "2 predictions in out.csv" in said.out
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["row", "patient", "ward", "prediction", "p(ill)", "p(well)"]
    assert [(row["row"], row["patient"], row["ward"]) for row in rows] == [("0", "p1", "a"), ("1", "p2", "b")]
    wanted = package.read_run(clinics).predict("north", new).probabilities
    assert wanted is not None
    assert np.allclose([[float(row["p(ill)"]), float(row["p(well)"])] for row in rows], wanted, rtol=1e-5)
    pq = pytest.importorskip("pyarrow.parquet")
    worked(amity(*words, "--out", "out.parquet"))
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert table["prediction"] == ["ill", "well"] and np.allclose(table["p(ill)"], wanted[:, 0])


def test_json_for_programs_and_the_label_is_compared(amity: Amity, clinics: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("sugar,diagnosis,pressure\n1,ill,2\n1,ill,-3\n1,,4\n")
    said = amity("predict", clinics, "--silo", "north", "--data", "new.csv", "--json")
    worked(said)
    found = json.loads(said.out)
    assert found["classes"] == ["ill", "well"] and [one["label"] for one in found["predictions"]] == [
        "ill",
        "ill",
        None,
    ]
    assert found["agreement"]["rows"] == 2 and found["agreement"]["accuracy"] == 50
    assert set(found["predictions"][0]["probabilities"]) == {"ill", "well"}
    shown = amity("predict", clinics, "--silo", "north", "--data", "new.csv").out
    assert "accuracy 50.0 % on 2 rows with a label (95 % interval 9.5 to 90.5, Wilson)" in shown
    assert FOR_NEW_ROWS in shown and FOR_NEW_ROWS in found["notes"]  # nobody knows whether it was trained on them
    (tmp_path / "new.csv").write_text("sugar,pressure\n1,2\n")
    shown = amity("predict", clinics, "--silo", "north", "--data", "new.csv").out
    assert "not trained on" not in shown  # without a label there is nothing to be too good


def test_many_rows_and_quantities(amity: Amity, quantities: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("pressure,sugar,diagnosis\n" + "1,0,60\n2,0,80\n" * 15)
    said = amity("predict", quantities, "--silo", "south", "--data", "new.csv")
    worked(said)
    assert "and 10 more rows: --out FILE.csv has all of them" in said.out and "p(" not in said.out
    assert "mean absolute error" in said.out and "30 rows with a label" in said.out


def test_what_cannot_be_used_is_one_line(amity: Amity, clinics: Path, new: Path, tmp_path: Path) -> None:
    words = ("predict", clinics, "--data", new)
    refused(amity(*words), "the run has 3 silos: say whose model it is with --silo, such as east")
    refused(amity(*words, "--silo", "nort"), "no silo is called 'nort'", "did you mean north")
    refused(amity(*words, "--silo", "north", "--keep", "name"), "must have what --keep names, it lacks name")
    (tmp_path / "twice.csv").write_text("row,label,pressure,sugar\n7,a,1,2\n")
    twice = ("predict", clinics, "--silo", "north", "--data", "twice.csv", "--keep", "row", "--keep", "label")
    refused(amity(*twice, "--out", "out.csv"), "--keep must name other columns", "got row: rename")
    refused(amity(*twice, "--json"), "got row, label: rename")
    assert not (tmp_path / "out.csv").exists()
    refused(amity(*words, "--silo", "north", "--out", "out.txt"), "must be a csv or parquet file")
    refused(amity(*words, "--silo", "north", "--out", new), "must not be the file that is read")
    refused(amity(*words, "--silo", "north", "--out", "no/such/out.csv"), "cannot write no/such/out.csv")
    refused(amity("predict", tmp_path, "--silo", "north", "--data", new), "holds no run")
    (tmp_path / "less.csv").write_text("ward\na\n")
    refused(amity("predict", clinics, "--silo", "north", "--data", "less.csv"), "it lacks pressure, sugar")
    assert new.read_text() == NEW


def test_a_run_without_models_says_where_they_are(amity: Amity, new: Path, tmp_path: Path) -> None:
    under_way = Recorder.create(tmp_path / "a", CONFIG, SILOS, FACTS)
    add_round(under_way, 1)
    refused(amity("predict", "a", "--silo", "north", "--data", new), "no model of north: finish the run with --resume")
    Recorder.create(tmp_path / "hub", CONFIG, SILOS, {**FACTS, "engine": "flare"}).close()
    refused(amity("predict", "hub", "--silo", "north", "--data", new), "each silo has its own", "federation predict")
    under_way.close()


def test_a_run_of_an_earlier_version_is_one_line(amity: Amity, clinics: Path, new: Path, tmp_path: Path) -> None:
    shutil.copytree(clinics, tmp_path / "old")
    (tmp_path / "old" / "checksums.json").unlink()
    (tmp_path / "old" / "models" / "north.json").unlink()
    refused(amity("predict", "old", "--silo", "north", "--data", new), "does not say what the model of north takes")


def test_a_model_of_ones_own_is_used_in_python(amity: Amity, new: Path, tmp_path: Path) -> None:
    from four_silos import linear, own, quick

    package.run(quick("separate", rounds=1), own(), model=linear, out=tmp_path / "mine")
    refused(amity("predict", "mine", "--silo", "north", "--data", new), "is your own", "amity.read_run('mine', model=")
