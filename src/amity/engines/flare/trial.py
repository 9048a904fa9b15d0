"""A federation on this machine alone, with everything that a real one has: keys, a server, silos as processes of their
own, mutual TLS over one port of the loopback interface. For a first look, and for tests.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from amity.config.run import Run
from amity.data import Silos
from amity.engines.flare.kits import signing_key
from amity.engines.flare.kits.files import check_place
from amity.engines.flare.kits.hub import make_hub
from amity.engines.flare.kits.members import admit
from amity.engines.flare.kits.request import read_request
from amity.engines.flare.kits.site import ask, complete
from amity.errors import InputError, LostWorker
from amity.federation.signed import sign
from amity.hub.board import OVER, Status
from amity.hub.run_file import contract_of_file
from amity.hub.runs import HubRun, add_run

NAMES = ("north", "east", "south", "west")
CONSORTIUM = "trial"


def names_of(count: int) -> list[str]:
    """What silos are called."""
    return [*NAMES[:count], *(f"silo-{number}" for number in range(len(NAMES) + 1, count + 1))]


def _remove(new: Sequence[Path]) -> None:
    """Remove folders that were made for a trial that cannot be made, the innermost first."""
    for one in new[:1]:
        shutil.rmtree(one, ignore_errors=True)
    for one in new[1:]:
        with suppress(OSError):  # it never came to be, or somebody else has put something there
            one.rmdir()


def renamed(silos: Silos, names: Sequence[str]) -> Silos:
    """The same silos under other names."""
    found = tuple(silo._replace(name=name) for silo, name in zip(silos.silos, names, strict=True))
    return dataclasses.replace(silos, silos=found)


class Trial:
    """A consortium in a folder. Used as a context: leaving it ends all its processes."""

    def __init__(self, folder: Path, silos: Silos, policy: str = 'approve = "standing"') -> None:
        """Make the hub, and a site for each silo with its data; nothing is started yet."""
        self.folder = folder = check_place(folder)  # now: nothing has been written yet
        self.hub = folder / "hub"
        self.silos = silos
        self.names = [silo.name for silo in silos.silos]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _remove(new)
            raise InputError(f"{folder} cannot be made ({error.strerror or error}): name another folder") from None
        try:
            self._make(policy)
        except BaseException:  # all of it or nothing
            _remove(new)
            raise

    def _make(self, policy: str) -> None:
        """Make the hub, and let every silo join."""
        folder = self.folder
        address = f'name = "{CONSORTIUM}"\norganisation = "Trial"\nhost = "localhost"\nport = {free_port()}\n'
        (folder / "consortium.toml").write_text(address)
        make_hub(folder / "consortium.toml", self.hub)
        for name in self.names:
            self.admit(name, policy)

    def admit(self, name: str, policy: str) -> None:
        """Let a silo join: it makes its key and asks, the coordinator answers, and its kit is complete."""
        site, answer = self.site(name), self.folder / f"{name}.admission"
        asked = ask(site, name, None)
        answer.write_text(admit(self.hub, read_request(asked.file)))
        complete(site, name, answer)
        (silo,) = (silo for silo in self.silos.silos if silo.name == name)
        parts = {"train": silo.train, "test": silo.test}
        arrays = {f"{axis}_{part}": getattr(split, axis).numpy() for part, split in parts.items() for axis in "xy"}
        np.savez(site / "data.npz", allow_pickle=False, **arrays)
        lines = [f'name = "{name}"', f'state = "../{name}-state"', 'data = "data.npz"', "[policy]", policy]
        (site / "silo.toml").write_text("\n".join(lines) + "\n")

    def site(self, name: str) -> Path:
        """A silo's folder."""
        return self.folder / name

    def results(self, name: str, run: str) -> Path:
        """The folder in which a silo has its own results of a run."""
        return self.folder / f"{name}-state" / "runs" / run

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self.end(name, wait=False)
        for name in list(self._processes):
            self.end(name)

    def start(self, *names: str, watch: bool = False) -> None:
        """Start the services of silos, or of the server (`server`); with their live pages where that is wanted."""
        for name in names:
            words = ["server", str(self.hub)] if name == "server" else ["silo", str(self.site(name))]
            with (self.folder / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "amity", "federation", *words, *(["--watch"] if watch else [])],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )

    def end(self, name: str, *, wait: bool = True, how: int = signal.SIGTERM) -> None:
        """End a service."""
        process = self._processes[name]
        if process.poll() is None:
            process.send_signal(how)
        if wait:
            process.wait()
            del self._processes[name]

    def pid(self, name: str) -> int:
        """The process of a service."""
        return self._processes[name].pid

    def submit(self, run: Run, name: str, **terms: Any) -> HubRun:
        """Sign a run and put it to all silos. `terms`: further lines of the run file."""
        file = self.folder / f"{name}.toml"
        file.write_text(run_file(run, name, self.silos, terms))
        contract = contract_of_file(file, CONSORTIUM, self.names)
        return add_run(self.hub, sign(contract, *signing_key(self.hub), datetime.now(UTC)))

    def wait(self, run: HubRun, seconds: float = 300.0, look: Callable[[Status], None] = lambda status: None) -> Status:
        """Wait until a run is over; how it stands then comes back."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            status = run.status
            look(status)
            if status["phase"] in OVER:
                return status
            for name, process in self._processes.items():
                if process.poll() not in (None, -signal.SIGKILL):
                    raise LostWorker(f"the process of {name} has ended: {self._last_words(name)}")
            time.sleep(0.3)
        raise LostWorker(f"run {run.name} has not ended in {seconds:.0f} s: it is {status['phase']}, {status['words']}")

    def wait_for(self, file: Path, seconds: float = 120.0) -> Path:
        """Wait until a file is there."""
        until = time.monotonic() + seconds
        while not file.exists():
            if time.monotonic() > until:
                raise LostWorker(f"{file} is not there after {seconds:.0f} s")
            time.sleep(0.3)
        return file

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def run_file(run: Run, name: str, silos: Silos, terms: dict[str, Any]) -> str:
    """The text of a run file about these silos."""
    import tomli_w

    shape = list(silos.silos[0].train.x.shape[1:])
    data: dict[str, Any] = {"shape": shape}
    data |= {"classes": silos.classes} if silos.classes else {"labels": "quantities"}
    keys = ("method", "rounds", "epochs", "seed", "model", "participation", "batch", "lr", "val_fraction")
    options: dict[str, Any] = {key: getattr(run, key) for key in keys if getattr(run, key) != "auto"}
    options |= {"ending": run.ending, "safe": run.safe, "robust": run.robust}
    if run.settings:
        options["set"] = dict(run.settings)
    return tomli_w.dumps({"name": name, **terms, "data": data, "run": options})


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def verdict(trial: Trial, name: str, run: str) -> dict[str, Any]:
    """A silo's own verdict on a run, when it has one."""
    file = trial.wait_for(trial.results(name, run) / "verdict.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found
