"""The long trial of the network engine: a federation on loopback that is struck once in every round, and must end as if
nothing had happened. By hand: `python -m benchmarks.endurance [--silos 7] [--rounds 20] [--seed 0] [--keep DIR]`.

A blow is drawn for each round: kill -9 of any process of any service, a whole service killed and started again, a
frozen process (SIGSTOP), a cut of one silo's network (a proxy between it and the server lets nothing through), a full
disk at a silo (needs root: its state folder is a small file system), a server that is restarted. At the end every
personal model must equal the simulator's bit for bit, every round must be on record once, and no silo may have trained
a round twice. Everything is printed as it happens; the last lines are the account.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from safetensors.torch import load_file

import amity
from amity.config.run import Run
from amity.engines.flare.trial import Trial, names_of, renamed
from amity.hub.board import OVER
from amity.hub.runs import HubRun
from amity.prepare import silos_of
from amity.record import read
from benchmarks.proxies import Proxies

KILLS = ("worker", "job", "parent", "service", "server job", "server parent", "server")  # -9
BLOWS = (*KILLS, "freeze", "cut", "disk")


class Arena:
    """The federation, and the blows that it takes."""

    def __init__(self, trial: Trial, proxies: Proxies, draw: random.Random, blows: Sequence[str]) -> None:
        self.trial = trial
        self.proxies = proxies
        self.draw = draw
        self.blows = blows

    def strike(self, number: int) -> str:
        """Strike for the so many-th time: every kind of blow once, then any. What was done comes back in words."""
        blow = self.blows[(number - 1) % len(self.blows)] if number <= len(self.blows) else self.draw.choice(self.blows)
        name = self.draw.choice(self.trial.names)
        match blow:
            case "worker":
                return self._kill(name, "amity.site.worker")
            case "job":
                return self._kill(name, "worker_process")
            case "parent":
                return self._kill(name, "kits.process")
            case "server job":
                return self._kill("server", "runner_process")
            case "server parent":
                return self._kill("server", "kits.process")
            case "service" | "server":
                return self._restart("server" if blow == "server" else name)
            case "freeze":
                return self._freeze(name)
            case "cut":
                return self._cut(name, 360 if number <= len(self.blows) else self.draw.choice((20, 70, 120)))
        return self._fill(name)

    def _family(self, name: str) -> list[psutil.Process]:
        first = psutil.Process(self.trial.pid(name))
        return [first, *first.children(recursive=True)]

    def _kill(self, name: str, word: str) -> str:
        found = [one for one in self._family(name) if any(word in part for part in _words(one))]
        try:
            found[0].kill()
        except (IndexError, psutil.NoSuchProcess):
            return f"nothing: {name} has no process {word} just now"
        return f"kill -9 of {name}'s {word}"

    def _restart(self, name: str) -> str:
        processes = self._family(name)
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for one in processes:
                try:
                    one.send_signal(how)
                except psutil.NoSuchProcess:
                    pass
        self.trial.end(name)
        pause = self.draw.choice((0, 5, 20))
        time.sleep(pause)
        self.trial.start(name)
        return f"kill -9 of all of {name}, started again after {pause} s"

    def _freeze(self, name: str) -> str:
        seconds = self.draw.choice((10, 30, 90))
        processes = self._family(name)
        for one in processes:
            one.suspend()
        time.sleep(seconds)
        for one in processes:
            try:
                one.resume()
            except psutil.NoSuchProcess:
                pass
        return f"{name} frozen for {seconds} s"

    def _cut(self, name: str, seconds: float) -> str:
        self.proxies.sever(name)
        time.sleep(seconds)
        self.proxies.cut.discard(name)
        return f"{name}'s network cut for {seconds:.0f} s"

    def _fill(self, name: str) -> str:
        state = self.trial.folder / f"{name}-state"
        filler = state / "filler"
        with filler.open("wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
                    file.flush()
            except OSError:
                pass
        seconds = self.draw.choice((10, 30))
        time.sleep(seconds)
        filler.unlink()
        return f"{name}'s disk full for {seconds} s"


class Account(NamedTuple):
    """What must hold at the end of a trial."""

    phase: str  # in which the run has come out
    words: str
    seconds: float
    struck: list[str]  # what was done, blow by blow
    jobs: int  # that were handed in for it
    equal: int  # silos whose model equals the simulator's, bit for bit
    rounds: int  # on record
    once: bool  # each of them is there, and once
    twice: list[str]  # rounds that a silo has trained twice
    left: list[int]  # processes that are still there

    def good(self, silos: int) -> bool:
        """Whether all came out as if nothing had happened."""
        return self.phase == "ended" and self.equal == silos and self.once and not self.twice and not self.left


def endure(folder: Path, run: Run, blows: Sequence[str], seed: int, most: int) -> Account:
    """Strike a federation in a folder, at most so many times, once in a round; how it came out comes back."""
    trial = Trial(folder, renamed(silos_of(run), names_of(int(run.clients))))
    mounts = _mount_states(trial) if "disk" in blows else []
    proxies = _through_proxies(trial)
    arena = Arena(trial, proxies, random.Random(seed), [blow for blow in blows if mounts or blow != "disk"])
    began = time.monotonic()
    try:
        with trial:
            trial.start("server", *trial.names)
            handed = trial.submit(run, "long", limits={"failures": 1000})
            struck = _strike_until_over(arena, handed, run.rounds, most)
            found = _account(trial, handed, run, struck, time.monotonic() - began)
        above = {os.getpid(), *(one.pid for one in psutil.Process().parents())}  # who was told of the folder too
        left = [
            one.pid for one in psutil.process_iter() if one.pid not in above and str(folder) in " ".join(_words(one))
        ]
        return found._replace(left=left)
    finally:
        for mount in mounts:
            subprocess.run(["umount", "-l", str(mount)], check=False)


def main() -> None:
    """Run the trial and print its account."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--silos", type=int, default=7)
    reader.add_argument("--rounds", type=int, default=20)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--epochs", type=int, default=300)  # long enough to be struck in
    reader.add_argument("--keep", type=Path)
    asked = reader.parse_args()
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="amity-endurance-"))
    run = Run("scaffold", data="digits", clients=asked.silos, rounds=asked.rounds, epochs=asked.epochs, engine="loop")
    found = endure(folder, run, BLOWS, asked.seed, asked.rounds)
    print(f"the run came out {found.phase} after {found.seconds:.0f} s {found.words}")
    print(f"blows: {len(found.struck)}; jobs handed in: {found.jobs}")
    print(f"models equal to the simulator's: {found.equal} of {asked.silos}")
    print(f"rounds on record: {found.rounds} of {asked.rounds}, each once: {found.once}")
    print(f"rounds trained twice: {', '.join(found.twice) or 'none'}")
    print(f"processes left: {found.left or 'none'}")
    sys.exit(0 if found.good(asked.silos) else 1)


def _words(process: psutil.Process) -> list[str]:
    try:
        return [str(word) for word in process.cmdline()]
    except psutil.Error:
        return []


def _mount_states(trial: Trial) -> list[Path]:
    """Give each silo's state a small file system of its own, where that is allowed."""
    mounts = []
    for name in trial.names:
        state = trial.folder / f"{name}-state"
        state.mkdir(mode=0o700, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0700", "amity", str(state)], check=False)
        if done.returncode == 0:
            mounts.append(state)
    return mounts


def _through_proxies(trial: Trial) -> Proxies:
    """Let each silo reach the server through a proxy of its own."""
    files = {name: trial.site(name) / "kit" / "startup" / "fed_client.json" for name in trial.names}
    contents = {name: json.loads(file.read_text()) for name, file in files.items()}
    host, _, port = contents[trial.names[0]]["servers"][0]["service"]["target"].partition(":")
    proxies = Proxies(int(port))
    for name, file in files.items():
        contents[name]["servers"][0]["service"]["target"] = f"{host}:{proxies.add(name)}"
        file.write_text(json.dumps(contents[name]))
    return proxies


def _strike_until_over(arena: Arena, run: HubRun, rounds: int, most: int) -> list[str]:
    """Strike once in every round, at most so many times, until the run is over."""
    struck: list[str] = []
    began = time.monotonic()
    last = 0
    while run.status["phase"] not in OVER and time.monotonic() - began < 600 * rounds:
        number = run.status["round"] + 1
        if (
            number > last
            and len(struck) < most
            and any(one["step"] == "training" for one in run.status["silos"].values())
        ):
            time.sleep(arena.draw.uniform(0.0, 1.5))
            words = arena.strike(len(struck) + 1)
            struck.append(words)
            print(f"{time.monotonic() - began:7.1f} s  round {number}: {words}", flush=True)
            last = number
        time.sleep(0.2)
    return struck


def _account(trial: Trial, handed: HubRun, run: Run, struck: list[str], seconds: float) -> Account:
    """Compare the end of a trial with what must hold."""
    expected = amity.run(run, trial.silos)
    assert isinstance(expected, amity.Result)
    status, equal, twice = handed.status, 0, list[str]()
    for name in trial.names:
        file, log = trial.results(name, "long") / "model.safetensors", trial.folder / f"{name}-state" / "worker.log"
        ours = load_file(file) if file.exists() else {}
        wanted = expected.model(name).state_dict()
        equal += ours.keys() == wanted.keys() and all(torch.equal(ours[key], value) for key, value in wanted.items())
        said = log.read_text() if log.exists() else ""
        turns = Counter(re.findall(r"run long, state: round (\d+) is trained and saved", said))
        twice += [f"{name} round {number}" for number, count in turns.items() if count > 1]
    lines = read(handed.folder / "record").lines
    once = [line["round"] for line in lines] == list(range(1, run.rounds + 1))
    phase, words = status["phase"], status["words"]
    return Account(phase, words, seconds, struck, handed.job["number"], equal, len(lines), once, twice, [])


if __name__ == "__main__":
    main()
