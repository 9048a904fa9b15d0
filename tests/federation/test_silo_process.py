"""A silo in a process of its own, given a folder and messages alone: the simulator's model, whatever is killed when."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from loaded import Loaded
from safetensors.torch import load_file
from torch import Tensor

import amity
from amity.data import Silos
from amity.engines.memory import Memory, answered
from amity.engines.processes import Processes
from amity.errors import DamagedFile, InputError, LostWorker
from amity.federation.encoding import decode, encode
from amity.federation.messages import Describe, Failed, Propose
from amity.federation.plan import Plan
from amity.federation.reports import Round
from amity.federation.server import ServerSide
from amity.prepare import silos_of
from amity.resolve import resolve
from amity.silo_process import SiloProcess, save_silo

LOSSY = {"participation": 0.7, "drop": 0.4, "drop_phase": "after"}


def asked(method: str, **how: object) -> amity.Run:
    base = {"data": "digits", "clients": 3, "rounds": 3, "epochs": 1, "per_silo": 40, "seed": 2, "engine": "loop"}
    return amity.Run(method, **{**base, **how})  # type: ignore[arg-type]


class Copies(Processes):
    """The same, whose processes need not load anything first."""

    def start(self, client: int) -> None:
        self._children[client] = Loaded("amity.silo_process", str(self._folders[client]))  # type: ignore[assignment]


def folders_of(silos: Silos, root: Path) -> list[Path]:
    folders = [root / silo.name for silo in silos.silos]
    for folder, silo in zip(folders, silos.silos, strict=True):
        save_silo(folder, silo, silos.classes)
    return folders


def agreed(children: Processes, run: amity.Run, count: int) -> tuple[Plan, Memory]:
    """The plan, which each side has come to by itself, and a carrier that has no silo of its own."""
    roster = children.roster("trial", run)
    resolved = resolve(run, roster)
    children.agree("trial", resolved.run, roster)
    plan = resolved.plan._replace(run="trial")
    return plan, Memory(plan, wires={client: partial(children.send, client) for client in range(count)})


def model_in(folder: Path) -> Mapping[str, Tensor]:
    return load_file(folder / "model.safetensors")


def check_models(run: amity.Run, silos: Silos, folders: list[Path]) -> None:
    whole = amity.run(run, silos)
    for silo, folder in zip(silos.silos, folders, strict=True):
        wanted, found = whole.model(silo.name).state_dict(), model_in(folder)
        assert wanted.keys() == found.keys()
        assert all(torch.equal(wanted[key], found[key]) for key in wanted), silo.name


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("scaffold", LOSSY),
        # In hub/test_conduct.py they are compared in the same way, with silos in one process.
        pytest.param("fedavg-ft", {"clients": 2}, marks=pytest.mark.slow),
        pytest.param("fedfomo", {"clients": 2}, marks=pytest.mark.slow),
    ],
    ids=["scaffold", "fedavg-ft", "fedfomo"],
)
def test_a_silos_process_has_the_simulators_model(method: str, how: dict[str, object], tmp_path: Path) -> None:
    """Nothing but bytes has crossed, and the server's side hosts no silo: it has no door."""
    run = asked(method, **how)
    silos = silos_of(run)
    folders = folders_of(silos, tmp_path)
    with Processes(folders) as children:
        plan, carrier = agreed(children, run, len(folders))
        server = ServerSide(plan, carrier)
        server.meet()
        best = -math.inf
        for report in server.rounds():  # validation data choose the round, where there are some; else it is the last
            vals = [score.val for score in report.scores or () if score.val is not None]
            if not vals or sum(vals) > best:
                best = sum(vals)
                server.keep()
        assert carrier.door is None and server.progress.round == 3
    check_models(run, silos, folders)


def test_a_silo_that_is_killed_and_a_server_that_comes_back_go_on_where_they_were(tmp_path: Path) -> None:
    """A silo dies in the middle of a round, and the server has to begin the round anew: nothing is trained twice."""
    run = asked("scaffold", **LOSSY, rounds=4)
    silos = silos_of(run)
    folders = folders_of(silos, tmp_path)
    saved: list[Round] = []
    with Copies(folders) as children:
        plan, carrier = agreed(children, run, len(folders))
        server = ServerSide(plan, carrier, save=saved.append)
        rounds = server.rounds()
        next(rounds)
        os.kill(children._children[1].pid, signal.SIGKILL)
        with pytest.raises(LostWorker, match="the process of silo 1 has ended"):
            for _ in rounds:
                pass
        children.end(1)
        children.start(1)
        plan, carrier = agreed(children, run, len(folders))
        server = ServerSide(plan, carrier, start=saved[-1].progress, save=saved.append)
        server.meet()
        list(server.rounds())
        server.keep()
    check_models(run, silos, folders)


def test_a_server_that_comes_back_from_an_older_checkpoint_is_followed(tmp_path: Path) -> None:
    """The newest one was damaged: silos take back the round that it does not know of, and give the same answers."""
    run = asked("scaffold", rounds=4, clients=2)
    silos = silos_of(run)
    folders = folders_of(silos, tmp_path)
    saved: list[Round] = []
    with Copies(folders) as children:
        plan, carrier = agreed(children, run, len(folders))
        rounds = ServerSide(plan, carrier, save=saved.append).rounds()
        next(rounds)
        next(rounds)
        again = ServerSide(plan, carrier, start=saved[0].progress)
        again.meet()
        assert [report.round for report in again.rounds()] == [2, 3, 4]
        again.keep()
        older = ServerSide(plan, carrier, start=saved[0].progress)
        with pytest.raises(InputError, match="has committed round 4, the server has saved round 1 only"):
            older.meet()
    check_models(run, silos, folders)


def test_a_folder_is_held_by_one_process_and_damage_in_it_is_noticed(tmp_path: Path) -> None:
    run = asked("fedamp", clients=2)
    silos = silos_of(run)
    folders = folders_of(silos, tmp_path)
    with Copies(folders) as children:
        plan, carrier = agreed(children, run, len(folders))
        next(ServerSide(plan, carrier).rounds())
        with Copies(folders) as others, pytest.raises(InputError, match="another process holds"):
            agreed(others, run, len(folders))
    (file,) = (folders[0] / "state" / "trial" / "current").glob("state.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with Copies(folders) as children, pytest.raises(InputError, match="is not as it was written"):
        agreed(children, run, len(folders))
    assert issubclass(DamagedFile, InputError)


def test_a_roster_that_says_something_else_of_a_silo_is_refused(tmp_path: Path) -> None:
    run = asked("fedavg", clients=2)
    silos = silos_of(run)
    with Copies(folders_of(silos, tmp_path)) as children:
        roster = children.roster("trial", run)
        forged = [roster[0]._replace(size=9999), *roster[1:]]
        with pytest.raises(InputError, match="line 0 of the roster is not what silo .* has said of itself"):
            children.agree("trial", resolve(run, forged).run, forged)
        with pytest.raises(InputError, match="a run's name is letters, digits"):
            children.roster("../elsewhere", run)


def test_a_folder_without_a_silo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no silo"):
        SiloProcess(tmp_path)


def test_the_secret_of_a_silo_stays_in_its_folder(tmp_path: Path) -> None:
    """It is the owner's alone, it is drawn once, and its streams are not those of the run's seed."""
    run = asked("fedavg", clients=2)
    silos = silos_of(run)
    folders = folders_of(silos, tmp_path)
    secrets = []
    for _ in range(2):
        with Copies(folders) as children:
            agreed(children, run, len(folders))
        kept = [folder / "state" / "trial" / "secret" for folder in folders]
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in kept)
        secrets.append([file.read_bytes() for file in kept])
    assert secrets[0] == secrets[1] and len(set(secrets[0])) == len(folders)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "the document of a run cannot be read"),
        ('{"roster": []}', "the document of a run cannot be read"),
        ('{"run": {"method": "fedavg", "set": {}, "no_such": 1}}', "the document of a run cannot be read"),
        ('{"run": {"method": "fedavg", "rounds": -1, "set": {}}}', "rounds"),
        ('{"run": {"method": "fedavg", "init_from": "/etc/passwd", "set": {}}}', "names no file"),
        ('{"run": {"method": "fedavq", "set": {}}}', "fedavg"),
    ],
)
def test_a_document_that_is_none_is_one_line_and_harms_nothing(document: str, said: str, tmp_path: Path) -> None:
    (folder,) = folders_of(replace_silos(silos_of(asked("fedavg", clients=2)), 1), tmp_path)
    process = SiloProcess(folder)
    before = sorted(path.name for path in folder.rglob("*"))
    for content in (encode(Describe("trial", 0, 0, document)), encode(Propose("trial", 0, 0, document))):
        failed = decode(answered(process, content))
        assert isinstance(failed, Failed) and failed.blame == "input"
        assert said in failed.words and "\n" not in failed.words
    garbage = decode(answered(process, b"\x00" * 40))
    assert isinstance(garbage, Failed) and "a message cannot be read" in garbage.words
    assert sorted(path.name for path in folder.rglob("*")) == before


def replace_silos(silos: Silos, count: int) -> Silos:
    """The first few of these silos."""
    return replace(silos, silos=silos.silos[:count])
