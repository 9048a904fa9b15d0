"""Messy tables of three clinics over a real network: silos agree on a schema by message, one of them is killed
meanwhile, and the run that follows gives the simulator's models.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from engines.flare import strikes
from safetensors.torch import load_file

import amity
from amity.data.schema.schema_file import read_schema
from amity.engines.flare.trial import Trial
from amity.hub.runs import run_of
from amity.prepare import silos_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flare: trial")]

CLINICS = Path(__file__).parents[3] / "examples" / "tables" / "clinics"
RUN = amity.Run("fedavg-ft", data=f"folder:{CLINICS}", label="diagnosis", rounds=2, epochs=2, seed=1, engine="loop")
FILE = """
name = "clinics"
invited = ["east", "north", "south"]
[data]
schema = "schema.toml"
label = "diagnosis"
labels = ["ill", "well"]
[run]
method = "fedavg-ft"
safe = false
rounds = 2
epochs = 2
seed = 1
"""


def command(trial: Trial, what: str) -> subprocess.CompletedProcess[str]:
    words = ["federation", what, "clinics.toml", "--hub", "hub", "--yes"]
    return subprocess.run(
        [sys.executable, "-m", "amity", *words], cwd=trial.folder, capture_output=True, text=True, timeout=600
    )


def test_clinics_agree_and_train_over_the_network(tmp_path: Path) -> None:
    silos = silos_of(RUN)
    with Trial(tmp_path / "trial", silos, 'approve = "standing"\nsummaries = "standing"') as trial:
        for name in trial.names:
            shutil.copy(CLINICS / f"{name}.csv", trial.site(name))
            file = trial.site(name) / "silo.toml"
            file.write_text(file.read_text().replace('"data.npz"', f'"{name}.csv"\nlabel = "diagnosis"'))
        (trial.folder / "clinics.toml").write_text(FILE)
        trial.start("server", "east", "north")  # south is down, and comes when the others have sent theirs
        asking = subprocess.Popen(
            [sys.executable, "-m", "amity", "federation", "schema", "clinics.toml", "--hub", "hub", "--yes"],
            cwd=trial.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        strikes.wait_until(lambda: (trial.hub / "runs" / "clinics-schema" / "contract.json").exists())
        trial.start("south")
        strikes.wait_until(lambda: "south" in run_of(trial.hub, "clinics-schema").job["silos"], 240)
        os.kill(trial.pid("north"), signal.SIGKILL)  # whatever it is at
        trial.end("north")
        trial.start("north")
        said, _ = asking.communicate(timeout=600)
        assert asking.returncode == 0, said
        assert silos.schema is not None
        assert read_schema(trial.folder / "schema.toml").text() == silos.schema.text()
        done = command(trial, "submit")
        assert done.returncode == 0, done.stdout + done.stderr
        wanted = amity.run(RUN, silos)
        for name in trial.names:
            found = load_file(trial.results(name, "clinics") / "model.safetensors")
            for key, value in wanted.model(name).state_dict().items():
                assert torch.equal(value, found[key]), (name, key)
