"""The runs of a hub: folders under HUB/runs, each with a signed contract, a board, and what its server has saved."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypedDict

from amity.errors import InputError
from amity.federation.contract_rules import NAME
from amity.federation.signed import Contract, Signed, any_from_json, to_json
from amity.hub.board import Status, new_status, read_status
from amity.record.files import load_bytes, load_json, replace
from amity.record.files import to_json as json_bytes

CONTRACT = "contract.json"
JOB = "job.json"


class Job(TypedDict):
    """What the supervisor remembers of a run between two looks, and over its own restarts."""

    id: str | None  # of the job that is under way
    number: int  # of jobs so far
    failures: int  # in a row, without a round between them
    round: int  # the last one that was done at the last failure
    silos: list[str]  # that the job was made for
    waiting: float | None  # since when silos are missing without whom no job can be made


def new_job() -> Job:
    """What is remembered of a run that was never handed in."""
    return {"id": None, "number": 0, "failures": 0, "round": 0, "silos": [], "waiting": None}


class HubRun(NamedTuple):
    """One run of a hub."""

    folder: Path
    contract: Contract

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def submitted(self) -> float:
        """When it was put into the hub, in seconds since 1970."""
        return (self.folder / CONTRACT).stat().st_mtime

    @property
    def status(self) -> Status:
        """How it stands."""
        contract = self.contract
        return read_status(self.folder) or new_status(
            contract.name, contract.invited, contract.rounds, contract.policy, contract.quorum
        )

    @property
    def job(self) -> Job:
        """What the supervisor remembers of it."""
        file = self.folder / JOB
        return load_json(file) if file.exists() else new_job()

    def remember(self, job: Job) -> None:
        """Write down what the supervisor has to remember."""
        replace(self.folder / JOB, json_bytes(job))


def runs_of(hub: Path) -> list[HubRun]:
    """All runs of a hub, by name."""
    return [run_of(hub, name) for name in run_names(hub)]


def run_names(hub: Path) -> list[str]:
    """The names of all runs of a hub."""
    folder = hub / "runs"
    return sorted(path.name for path in folder.iterdir() if (path / CONTRACT).exists()) if folder.is_dir() else []


def run_of(hub: Path, name: str) -> HubRun:
    """One run of a hub."""
    folder = hub / "runs" / name
    if not NAME.fullmatch(name) or not (folder / CONTRACT).exists():
        known = [path.name for path in (hub / "runs").iterdir()] if (hub / "runs").is_dir() else []
        raise InputError(f"{hub} has no run {name!r}: it has {', '.join(sorted(known)) or 'none yet'}")
    text = load_bytes(folder / CONTRACT).decode(errors="replace")  # what is no text fails as a contract, in one line
    return HubRun(folder, any_from_json(text).contract)


def add_run(hub: Path, signed: Signed[Contract]) -> HubRun:
    """Put a run into the hub. From now on its server sees to it."""
    folder = hub / "runs" / signed.contract.name
    if (folder / CONTRACT).exists():
        raise InputError(f"{hub} has a run {signed.contract.name!r} already: give this one another name")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace(folder / CONTRACT, to_json(signed).encode())  # last: this is what makes it a run
    return HubRun(folder, signed.contract)
