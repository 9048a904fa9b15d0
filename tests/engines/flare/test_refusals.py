"""What a federation at work refuses, whoever asks: the coordinator's own tools are used for what they are not made for.

The tests of kits/ show the same of each kit by itself, and who gets no connection.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.flare import strikes

from amity.config.run import Run
from amity.engines.flare.jobs import Jobs, write_job
from amity.engines.flare.trial import Trial, names_of, renamed
from amity.errors import InputError
from amity.federation.audit import entries
from amity.prepare import silos_of
from amity.record import read

# One federation for all. Slow, since it takes a minute and a half: kits/ has the refusals that need no job.
pytestmark = [pytest.mark.xdist_group("flare: refusals"), pytest.mark.slow]

RUN = Run("fedavg", data="digits", clients=2, rounds=2, epochs=1, engine="loop", model="mlp")

CHEAT = """
from amity.engines import memory
from amity.federation.messages import Upload

encode = memory.encode
memory.encode = lambda answer, *more: encode(answer._replace(silo=0) if isinstance(answer, Upload) else answer, *more)


def load():
    import numpy

    found = numpy.load(__file__.replace("cheat.py", "data.npz"))
    return tuple(found[key] for key in ("x_train", "y_train", "x_test", "y_test"))
"""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    silos = renamed(silos_of(RUN), names_of(2))
    with Trial(tmp_path_factory.mktemp("refusals") / "trial", silos) as trial:
        trial.start("server", *trial.names)
        with Jobs(trial.hub) as jobs:
            strikes.wait_until(lambda: _connected(jobs) == {"north", "east"}, pause=0.5)
        yield trial


def _connected(jobs: Jobs) -> set[str]:
    try:
        return jobs.connected()
    except Exception:  # the server is not there yet
        return set()


def hand_in(jobs: Jobs, trial: Trial, what: str, change: Callable[[Path], None], run: str = "by-hand") -> str:
    """Hand in a job that somebody has written by hand; its name comes back."""
    folder = trial.folder / f"job-{what}"
    write_job(folder, run, trial.names, 2)
    change(folder)
    return str(jobs._ask("submit_job", str(folder)))


@pytest.fixture(scope="module")
def outcomes(trial: Trial) -> dict[str, dict[str, Any]]:
    """How the jobs that nobody should hand in have come out; they are handed in together, for each takes a while."""
    outside = trial.folder / "outside"
    contract = trial.submit(RUN, "model").folder / "contract.json"
    shutil.copytree(contract.parent, outside)
    shutil.rmtree(contract.parent)

    def other_class(folder: Path) -> None:
        file = folder / "app" / "config" / "config_fed_client.json"
        content = json.loads(file.read_text())
        content["executors"][0]["executor"] = {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}}
        file.write_text(json.dumps(content))

    def with_code(folder: Path) -> None:
        custom = folder / "app" / "custom"
        custom.mkdir()
        (custom / "sitecustomize.py").write_text(f"open({str(trial.folder / 'it-ran')!r}, 'w')\n")

    with Jobs(trial.hub) as jobs:
        handed = {
            "class": hand_in(jobs, trial, "class", other_class),
            "code": hand_in(jobs, trial, "code", with_code),
            "path": hand_in(jobs, trial, "path", lambda folder: None, "../../outside"),
        }
        strikes.wait_until(lambda: all(jobs.over(job) for job in handed.values()), 90, pause=0.5)
        return {what: jobs._ask("get_job_meta", job) for what, job in handed.items()}


def silo_words(trial: Trial, name: str) -> str:
    """All that FLARE's process of a silo has logged."""
    return "\n".join(file.read_text(errors="replace") for file in trial.site(name).glob("kit/**/log.txt"))


def test_a_class_that_a_silo_has_not_allowed(trial: Trial, outcomes: dict[str, dict[str, Any]]) -> None:
    assert not outcomes["class"]["status"].startswith("FINISHED:COMPLETED")
    refusal = "NPTrainer.* is not in allow_list"
    assert all(re.search(refusal, silo_words(trial, name)) for name in trial.names)


def test_code_that_comes_with_a_job(trial: Trial, outcomes: dict[str, dict[str, Any]]) -> None:
    assert not outcomes["code"]["status"].startswith("FINISHED:COMPLETED")
    assert not (trial.folder / "it-ran").exists()


def test_a_job_whose_run_is_a_path(trial: Trial, outcomes: dict[str, dict[str, Any]]) -> None:
    """It leads to a contract that is there and would do, but is not among the runs of the hub."""
    assert not outcomes["path"]["status"].startswith("FINISHED:COMPLETED")
    assert [path.name for path in (trial.folder / "outside").iterdir()] == ["contract.json"]


def test_a_run_whose_name_is_a_path_is_not_signed(trial: Trial) -> None:
    with pytest.raises(InputError, match="name"):
        trial.submit(RUN, "..")


def test_a_contract_that_nobody_here_has_approved(trial: Trial) -> None:
    site, data = trial.site("east"), trial.site("east") / "data.npz"
    config, content = (site / "silo.toml").read_text(), data.read_bytes()
    (site / "silo.toml").write_text(config.replace('approve = "standing"', ""))
    data.unlink()  # whoever opened it would fail
    run = trial.submit(RUN, "unapproved", limits={"absence": 3, "failures": 1})
    try:
        strikes.wait_until(lambda: run.status["silos"]["east"]["step"] == "declined")
        assert "approve" in run.status["silos"]["east"]["words"]
        assert run.status["silos"]["north"]["step"] in ("approved", "connected")
        status = trial.wait(run)
        assert status["phase"] == "failed" and "east" in status["words"]
    finally:
        (site / "silo.toml").write_text(config)
        data.write_bytes(content)
    told = [entry.what for entry in entries(trial.folder / "east-state" / "audit.jsonl")]
    assert "declined" in told and "sent Described" not in told


@pytest.mark.slow
def test_an_upload_for_another_silo(trial: Trial) -> None:
    """A silo whose own code answers under another's number; hub/test_lying_silos.py has it without a network."""
    site = trial.site("east")
    config = (site / "silo.toml").read_text()
    (site / "cheat.py").write_text(CHEAT)
    (site / "silo.toml").write_text(config.replace('data = "data.npz"', 'factory = "cheat:load"'))
    try:
        run = trial.submit(RUN, "cheated", policy="quorum", quorum=1)
        status = trial.wait(run)
    finally:
        (site / "silo.toml").write_text(config)
    assert status["phase"] == "incomplete" and "east" in status["words"]
    for line in read(run.folder / "record").lines:
        assert line["took_part"] == ["north"] and "no answer of this silo's own" in line["dropped"]["east"]
