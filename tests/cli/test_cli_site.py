"""`amity federation predict, verdict, leave`: what a silo does with its own results, on its own machine."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from cli.commands import Amity, refused, worked
from safetensors.torch import load_file
from sites import ROOT, contract_of, make_site, signed

import amity as package
from amity.federation.approvals import approve
from amity.federation.encoding import decode, encode
from amity.federation.messages import Describe, Described, Done, Keep, Message, Propose, Standing
from amity.federation.run_contract import DataForm
from amity.site.answering import Worker
from amity.site.config import load_site

FORM = DataForm((2,), ("ill", "well"), ("pressure", "sugar"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A silo that has been through a run of its own."""
    folder = make_site(tmp_path / "north", 'data = "patients.csv"\nlabel = "finding"')
    x = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    rows = [f"{a},{b},{'ill' if a > 0 else 'well'}" for a, b in x.tolist()]
    (folder / "patients.csv").write_text("\n".join(["pressure,sugar,finding", *rows]) + "\n")
    contract = contract_of(package.Run("separate", rounds=1, epochs=1), FORM, ["north"])
    own = load_site(folder)
    approve(own.state, contract, "north", "somebody", datetime.now(UTC))
    worker = Worker(own, root=lambda site: ROOT.pem)

    def ask(message: Message) -> object:
        return decode(worker.exchange(encode(message)))

    described = ask(Describe("trial", 0, 0, signed(contract)))
    assert isinstance(described, Described)
    document = f'{{"contract": {signed(contract)}, "roster": [{described.member}]}}'
    assert isinstance(ask(Propose("trial", 0, 0, document)), Standing)
    assert isinstance(ask(Keep("trial", 0, 0, None)), Done)
    worker.close()
    return folder


def model_of(site: Path) -> Path:
    return site / "state" / "runs" / "trial" / "model.safetensors"


def test_a_silo_uses_its_model_and_is_told_its_verdict(amity: Amity, site: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("sugar,pressure\n0.5,2\n0.5,-2\n")
    said = amity("federation", "predict", site, "trial", tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    worked(said)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert (
        "2 predictions" in said.out and [set(row) for row in rows] == [{"row", "prediction", "p(ill)", "p(well)"}] * 2
    )
    worked(amity("federation", "export", site, "trial", "--to", "safetensors"))
    assert load_file(tmp_path / "trial.safetensors").keys() == load_file(model_of(site)).keys()
    verdict = amity("federation", "verdict", site, "trial")
    worked(verdict)
    assert "north, run trial: no clear difference" in verdict.out
    assert (site / "state" / "runs" / "trial" / "report.md").exists()


def test_a_silo_asks_to_leave(amity: Amity, site: Path) -> None:
    said = amity("federation", "leave", site, "trial")
    worked(said)
    assert "north leaves run trial" in said.out
    assert (site / "state" / "runs" / "trial" / "leave").exists()


def test_what_cannot_be_done_is_one_line(amity: Amity, site: Path, tmp_path: Path) -> None:
    refused(amity("federation", "predict", site, "other", "new.csv"), "has no model of run 'other'")
    refused(amity("federation", "export", site, "trial", "--to", "card"), "report.md")
    refused(amity("federation", "export", site, "trial", "--to", "onnx", "--out", "m.txt"), "must end in .onnx")
    refused(amity("federation", "leave", site, "other"), "takes part in no run 'other'")
    refused(amity("federation", "verdict", tmp_path, "trial"), "silo.toml cannot be read")
