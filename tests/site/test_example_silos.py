"""The example of three silos: its files are read, and each silo comes to a verdict of its own."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from sites import ROOT, Workers, approved, signed

from amity.federation.messages import Declined, Describe, Finish
from amity.federation.server import ServerSide
from amity.hub.run_file import contract_of_file
from amity.site.predict import predict

EXAMPLE = Path(__file__).parents[2] / "examples" / "silos"
NAMES = ["north", "south", "east"]


@pytest.mark.slow  # a quarter of a minute
def test_the_example_runs_from_its_data_to_three_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = tmp_path / "trial"
    shutil.copytree(EXAMPLE, trial)
    runpy.run_path(str(trial / "make_data.py"), run_name="__main__")
    assert "wrote north/scans.csv" in capsys.readouterr().out
    folders = [trial / name for name in NAMES]
    for folder in folders:
        (folder / "kit" / "startup").mkdir(parents=True)
        (folder / "kit" / "startup" / "rootCA.pem").write_bytes(ROOT.pem)
    contract = contract_of_file(trial / "RUN.toml", "trial-consortium", NAMES)
    with Workers(folders) as children:
        refused = children.ask(1, Describe(contract.name, 0, 1, signed(contract)))
        assert isinstance(refused, Declined) and "amity federation approve digits-1" in refused.words
        approved(folders[1], contract)
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        list(server.rounds())
        server.keep()
        for client in range(3):
            children.ask(client, Finish(contract.name, 10, client))
            children.end(client)
    verdicts = {
        name: json.loads((trial / name / "state" / "runs" / "digits-1" / "verdict.json").read_text()) for name in NAMES
    }
    assert [verdict["examples"] for verdict in verdicts.values()] == [120, 60, 30]
    assert all(verdict["personal"] > 50 for verdict in verdicts.values())  # ten classes
    assert verdicts["east"]["judgement"] == "gains"  # 50 examples of its own are few
    found = predict(trial / "north", "digits-1", trial / "north" / "scans.csv")
    assert found.probabilities is not None and found.probabilities.shape == (400, 10)
    truth = np.loadtxt(trial / "north" / "scans.csv", delimiter=",", skiprows=1)[:, -1].astype(int).astype(str)
    assert (np.array(found.values) == truth).mean() > 0.6
