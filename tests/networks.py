"""A network in this process, for tests: letters go to real workers of silos, and each may be lost, changed or counted.

trial = trial_of(tmp_path, "scaffold")      a hub with a signed contract, and the folders of three silos
with trial.network() as network:            their workers
    trial.conduct(network)                  what a FLARE job does
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors.torch import load_file
from sites import approved, contract_of, npz_site, signed
from torch import Tensor

import amity
from amity import record
from amity.contract import State
from amity.data import Silos
from amity.errors import LostWorker
from amity.federation.encoding import decode
from amity.federation.held import down_of
from amity.federation.messages import Message
from amity.federation.run_contract import DataForm, RunContract
from amity.federation.transport import Away, Letter, sha256
from amity.hub.board import Status, read_status
from amity.hub.conduct import conduct
from amity.prepare import silos_of
from amity.site.answering import Worker
from amity.site.config import Site, load_site

DIGITS = DataForm((1, 8, 8), tuple("0123456789"))


class Killed(BaseException):
    """The end of the server's process, as far as a test can have it without ending itself."""


def delivered(name: str, message: Message) -> None:
    """Let a letter through."""


def unchanged(name: str, message: Message, answer: bytes) -> bytes | Away:
    """Let an answer through."""
    return answer


@dataclass
class MemoryNetwork:
    """Workers in this process, or whatever else answers bytes with bytes, by the names of their silos."""

    exchanges: dict[str, Callable[[bytes], bytes]]
    workers: list[Worker] = field(default_factory=list)
    away: dict[str, str] = field(default_factory=dict)  # silo -> why it does not answer
    before: Callable[[str, Message], None] = delivered  # hears of each letter; raises where the server ends there
    after: Callable[[str, Message, bytes], bytes | Away] = unchanged
    sent: list[tuple[str, Message]] = field(default_factory=list)
    allowed: list[tuple[str, type[Message], float]] = field(default_factory=list)  # seconds for an answer
    signs: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    stopped: bool = False
    _brought: dict[str, State] = field(default_factory=dict)  # by the hash of a letter, for those that refer to it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.close()

    def send(self, letters: Mapping[str, Letter], seconds: Mapping[str, float]) -> Iterator[tuple[str, bytes | Away]]:
        for name, letter in list(letters.items()):  # the server forgets what is answered
            content = bytes(letter)
            if self.stopped:
                return
            message = decode(content, self._brought.get)
            assert isinstance(message, Message)
            self._brought.setdefault(sha256(content), down_of(message) or {})
            self.before(name, message)
            self.sent.append((name, message))
            self.allowed.append((name, type(message), seconds[name]))
            yield name, self._answer(name, message, content)

    def _answer(self, name: str, message: Message, content: bytes) -> bytes | Away:
        if name in self.away:
            return Away(self.away[name])
        try:
            return self.after(name, message, self.exchanges[name](content))
        except LostWorker as error:
            return Away(str(error))

    def sign(self, name: str) -> tuple[float, Mapping[str, Any]] | None:
        if name in self.away:
            return self.signs.get(name)
        return self.signs.get(name, (time.time(), {"amity": "0.1.0", "time": time.time()}))

    def rounds_sent(self, kind: type[Message], name: str) -> list[int]:
        """The rounds of the letters of this kind that a silo was sent."""
        return [message.round for silo, message in self.sent if silo == name and isinstance(message, kind)]


@dataclass(frozen=True)
class Trial:
    """A hub with one run, and the folders of its silos."""

    hub: Path
    run: amity.Run
    silos: Silos
    folders: dict[str, Path]
    contract: RunContract

    @property
    def names(self) -> list[str]:
        return list(self.folders)

    @property
    def folder(self) -> Path:
        return self.hub / "runs" / self.contract.name

    @property
    def status(self) -> Status:
        status = read_status(self.folder)
        assert status is not None
        return status

    @property
    def phase(self) -> str:
        return self.status["phase"]

    @property
    def steps(self) -> dict[str, str]:
        return {name: silo["step"] for name, silo in self.status["silos"].items()}

    @property
    def record(self) -> record.Record:
        return record.read(self.folder / "record")

    def approve(self, name: str) -> None:
        """Let somebody at a silo approve the contract."""
        approved(self.folders[name], self.contract)

    def site(self, name: str) -> Site:
        return load_site(self.folders[name])

    def network(self, without: Collection[str] = ()) -> MemoryNetwork:
        workers = {name: Worker(self.site(name)) for name in self.names if name not in without}
        return MemoryNetwork({name: one.exchange for name, one in workers.items()}, list(workers.values()))

    def conduct(self, network: MemoryNetwork) -> None:
        conduct(self.hub, self.contract.name, network)

    def model(self, name: str) -> dict[str, Tensor]:
        """The personal model that a silo has on its own disk."""
        return load_file(self.folders[name] / "state" / "runs" / self.contract.name / "model.safetensors")

    def simulated(self) -> amity.Result:
        """The same run in a simulation."""
        return amity.run(replace(self.run, engine="loop"), self.silos)

    def check_models(self, wanted: amity.Result | None = None) -> None:
        """Every silo has the simulator's model, bit for bit."""
        wanted = wanted or self.simulated()
        for name in self.names:
            check_equal(wanted.model(name).state_dict(), self.model(name), name)


class Pauses:
    """What happens while the server waits: one thing after the other, then nothing more."""

    def __init__(self) -> None:
        self.script: list[Callable[[], None]] = []
        self.now = 0.0
        self.count = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.count += 1
        assert self.count < 200, "the server waits for ever"
        if self.script:
            self.script.pop(0)()


def killed(trial: Trial, network: MemoryNetwork, at: Callable[[str, Message], bool]) -> bool:
    """Conduct a run whose server ends when it is about to send a letter; False where it comes to its end before."""

    def end(name: str, message: Message) -> None:
        if at(name, message):
            raise Killed

    network.before = end
    try:
        trial.conduct(network)
    except Killed:
        return True
    finally:
        network.before = delivered
        gc.collect()  # with a process go the locks that it holds
    return False


def letter(number: int) -> Callable[[str, Message], bool]:
    """Whether a letter is the one with this number."""
    counted = iter(range(number + 1))
    return lambda name, message: next(counted) == number


def check_equal(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str) -> None:
    assert wanted.keys() == found.keys(), what
    assert all(torch.equal(wanted[key], found[key]) for key in wanted), what


def trial_of(
    tmp_path: Path,
    method: str,
    *,
    clients: int = 3,
    terms: Mapping[str, Any] | None = None,
    unapproved: Collection[str] = (),
    **options: Any,
) -> Trial:
    """Silos of a few digits, and a contract that all but a few of them have approved. `terms`: of the contract."""
    run = small_run(method, **options)
    silos = _digits(clients)
    names = [silo.name for silo in silos.silos]
    contract = contract_of(run, DIGITS, names, **{"quorum": clients, "least_rounds": 0, **(terms or {})})
    folders = {silo.name: npz_site(tmp_path, silo) for silo in silos.silos}
    for name in folders.keys() - set(unapproved):
        approved(folders[name], contract)
    folder = tmp_path / "hub" / "runs" / contract.name
    folder.mkdir(parents=True)
    (folder / "contract.json").write_text(signed(contract))
    return Trial(tmp_path / "hub", run, silos, folders, contract)


@cache
def _digits(clients: int) -> Silos:
    return silos_of(amity.Run(data="digits", clients=clients, seed=2))


def small_run(method: str, **options: Any) -> amity.Run:
    usual = {"rounds": 3, "epochs": 1, "per_silo": 24, "seed": 2, "model": "mlr", "batch": 12}
    return amity.Run(method, **{**usual, **options})
