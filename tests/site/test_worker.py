"""A silo's worker as a real process: the simulator's model, whatever is killed when, and nothing without approval."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sites import Workers, approve, contract_of, npz_site

import amity
from amity.data import Silos
from amity.errors import LostWorker
from amity.federation.reports import Progress
from amity.federation.run_contract import DataForm, RunContract
from amity.federation.server import ServerSide
from amity.prepare import silos_of

DIGITS = DataForm((1, 8, 8), tuple("0123456789"))


def asked(method: str, **how: object) -> amity.Run:
    return amity.Run(method, **{"rounds": 3, "epochs": 1, "per_silo": 40, "seed": 2, **how})  # type: ignore[arg-type]


def federation(tmp_path: Path, run: amity.Run, clients: int = 3) -> tuple[Silos, list[Path], RunContract]:
    """Silos of digits, their folders, and a contract that all have approved."""
    silos = silos_of(amity.Run(data="digits", clients=clients, seed=2))
    contract = contract_of(run, DIGITS, [silo.name for silo in silos.silos])
    folders = [npz_site(tmp_path, silo) for silo in silos.silos]
    for folder in folders:
        approve(folder, contract)
    return silos, folders, contract


def check_models(run: amity.Run, silos: Silos, folders: list[Path]) -> None:
    whole = amity.run(replace(run, engine="loop"), silos)
    for silo, folder in zip(silos.silos, folders, strict=True):
        wanted = whole.model(silo.name).state_dict()
        found = load_file(folder / "state" / "runs" / "trial" / "model.safetensors")
        assert wanted.keys() == found.keys()
        assert all(torch.equal(wanted[key], found[key]) for key in wanted), silo.name


@pytest.mark.parametrize(
    ("method", "how"), [("scaffold", {"participation": 0.7}), ("fedavg-ft", {}), ("heurfedamp", {})]
)
def test_a_worker_has_the_simulators_model(method: str, how: dict[str, object], tmp_path: Path) -> None:
    run = asked(method, **how)
    silos, folders, contract = federation(tmp_path, run)
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        server = ServerSide(plan, carrier)
        server.meet()
        list(server.rounds())
        server.keep()
    check_models(run, silos, folders)


def test_a_worker_that_is_killed_answers_from_its_store_without_being_told_the_plan_again(tmp_path: Path) -> None:
    run = asked("scaffold", rounds=4)
    silos, folders, contract = federation(tmp_path, run)
    saved: list[Progress] = []
    with Workers(folders) as children:
        plan, carrier = children.agree(contract)
        rounds = ServerSide(plan, carrier, save=saved.append).rounds()
        next(rounds)
        os.kill(children.children[1].pid, signal.SIGKILL)
        with pytest.raises(LostWorker):
            next(rounds)
        children.kill(1)
        children.start(1)
        server = ServerSide(plan, carrier, start=saved[-1], save=saved.append)
        server.meet()
        list(server.rounds())
        server.keep()
    check_models(run, silos, folders)
