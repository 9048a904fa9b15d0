"""The card of a model says what the record holds, in plain English."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.commands import Amity, worked
from predicting.clinics import SILOS, make_clinics, run_clinics
from scipy import stats

import amity as package
from amity.report.view_worth import worth_beside


def test_a_card_says_what_the_record_holds(clinics: Path) -> None:
    text = (clinics / "models" / "north.md").read_text()
    record = package.read_run(clinics).record
    right = record.predictions["north"]["delivered"]
    wanted = stats.binomtest(int(right.sum()), len(right)).proportion_ci(0.95, method="wilson")
    assert f"**Accuracy {100 * right.mean():.1f} %** on {len(right)} test examples" in text
    assert f"{100 * wanted.low:.1f} to {100 * wanted.high:.1f} % (Wilson)" in text
    (held,) = (one for one in json.loads((clinics / "manifest.json").read_text())["silos"] if one["name"] == "north")
    assert f"- {sum(held['train'])} training examples (ill: {held['train'][0]}, well: {held['train'][1]})" in text
    assert "- 2 features: pressure, sugar; the label is `diagnosis`" in text
    assert "trained together with 2 other silos, by the method `heurfedamp`" in text
    assert str(record.facts["sha256"]) in text and "seed 0" in text and f"Amity {record.facts['version']}" in text
    assert "## What it must not be used for" in text and "With nothing." in text
    assert len(text) < 4000


def test_quantities_have_an_error_with_an_interval(quantities: Path) -> None:
    errors = abs(package.read_run(quantities).record.predictions["east"]["delivered"])
    text = (quantities / "models" / "east.md").read_text()
    assert f"**Mean absolute error {errors.mean():.4g}**" in text and "(normal)" in text and "a quantity" in text


def test_a_card_knows_what_was_run_beside_it(amity: Amity, tmp_path: Path) -> None:
    runs = ("fedamp", "fedavg", "separate")
    for method in runs:
        run_clinics(tmp_path, method, out=f"both/{method}")
    joined, everybody, alone = (package.read_run(tmp_path / "both" / name).scores["south"] for name in runs)
    text = (tmp_path / "both" / "fedamp" / "models" / "south.md").read_text()  # the others came after it
    assert f"| a model trained by the silo alone | {alone:.1f} | {joined - alone:+.1f} points |" in text
    assert f"| one global model for all silos | {everybody:.1f} |" in text
    records = [package.read_run(tmp_path / "both" / name).record for name in ("fedamp", "separate")]
    (verdict,) = (one["words"] for one in worth_beside(*records)["silos"] if one["silo"] == "south")
    assert f"beside training alone: **{verdict}**" in text
    run_clinics(tmp_path, "pooled", out="both/pooled")  # in which nobody joins anything: no verdict, and no complaint
    assert "beside training alone" not in (tmp_path / "both" / "pooled" / "models" / "south.md").read_text()
    text = (tmp_path / "both" / "fedamp" / "models" / "south.md").read_text()
    worked(amity("export", "both/fedamp", "--silo", "south", "--to", "card"))
    assert (tmp_path / "south.md").read_text() == text


def test_a_run_with_every_silo_alone_is_read_with_it(tmp_path: Path) -> None:
    make_clinics(tmp_path / "clinics")
    run = package.Run("fedamp", data=f"folder:{tmp_path / 'clinics'}", label="diagnosis", rounds=1, epochs=1, workers=1)
    now = package.run(run, out=tmp_path / "run", alone=True)
    later = package.read_run(tmp_path / "run")
    assert later.alone is not None and now.alone is not None and later.alone.scores == now.alone.scores
    assert later.worth == now.worth
    text = (tmp_path / "run" / "models" / "north.md").read_text()
    assert f"| a model trained by the silo alone | {now.alone.scores['north']:.1f} |" in text
    alone = (tmp_path / "run" / "alone" / "models" / "north.md").read_text()
    assert "what models of silos that join are compared with" in alone


def test_a_run_that_was_tested_on_other_examples_is_no_comparison(tmp_path: Path) -> None:
    run_clinics(tmp_path, "separate", out="separate")
    data = tmp_path / "clinics" / "north.csv"
    data.write_text(data.read_text() + "9,9,ill\n" * 10)
    run_clinics(tmp_path, "fedamp", out="fedamp")
    assert "With nothing." in (tmp_path / "fedamp" / "models" / "south.md").read_text()


@pytest.mark.parametrize("silo", SILOS)
def test_every_silo_has_a_card(silo: str, clinics: Path) -> None:
    assert (clinics / "models" / f"{silo}.md").read_text().startswith(f"# Model card: {silo}\n")
