"""The long trial of the network engine: a federation on loopback that is struck once in every round, and must end as if
nothing had happened. By hand: `python benchmarks/endurance.py [--silos 7] [--rounds 20] [--seed 0] [--keep DIR]`.

A blow is drawn for each round: kill -9 of any process of any service, a whole service killed and started again, a
frozen process (SIGSTOP), a cut of one silo's network (a proxy between it and the server lets nothing through), a full
disk at a silo (needs root: its state folder is a small file system), a server that is restarted. At the end every
personal model must equal the simulator's bit for bit, every round must be on record once, and no silo may have trained
a round twice. Everything is printed as it happens; the last lines are the account.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import torch
from safetensors.torch import load_file

import amity
from amity.config.run import Run
from amity.engines.flare.trial import Trial, free_port, names_of, renamed
from amity.hub.board import OVER
from amity.hub.runs import HubRun
from amity.prepare import silos_of
from amity.record import read

BLOWS = ("worker", "job", "parent", "service", "server job", "server parent", "server", "freeze", "cut", "disk")


class Proxies:
    """A proxy for each silo, through which it reaches the server, and which can be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.cut: set[str] = set()
        self._open: dict[str, set[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def add(self, name: str) -> int:
        """Start a silo's proxy; its port comes back."""
        port, self._open[name] = free_port(), set()

        async def start() -> None:
            await asyncio.start_server(lambda r, w: self._join(name, r, w), "127.0.0.1", port)

        asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        return port

    def sever(self, name: str) -> None:
        """Cut a silo's connections, and let no new one through."""
        self.cut.add(name)
        for writer in list(self._open[name]):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    async def _join(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if name in self.cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, far_writer}
        self._open[name] |= both
        await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        self._open[name] -= both


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


class Arena:
    """The federation, and the blows that it takes."""

    def __init__(self, trial: Trial, proxies: Proxies, draw: random.Random, disks: bool) -> None:
        self.trial = trial
        self.proxies = proxies
        self.draw = draw
        self.blows = BLOWS if disks else BLOWS[:-1]

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
        found = [one for one in self._family(name) if any(word in part for part in one.cmdline())]
        if not found:
            return f"nothing: {name} has no process {word} just now"
        found[0].kill()
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
    trial = Trial(folder, renamed(silos_of(run), names_of(asked.silos)))
    mounts = _mount_states(trial)
    proxies = _through_proxies(trial)
    arena = Arena(trial, proxies, random.Random(asked.seed), bool(mounts))
    began = time.monotonic()
    try:
        with trial:
            trial.start("server", *trial.names)
            handed = trial.submit(run, "long", limits={"failures": 1000})
            struck = _strike_until_over(arena, handed, asked.rounds)
            status = handed.status
            print(f"the run came out {status['phase']} after {time.monotonic() - began:.0f} s {status['words']}")
            good = status["phase"] == "ended" and _account(trial, handed, run, struck)
        above = {os.getpid(), *(one.pid for one in psutil.Process().parents())}  # who was told of the folder too
        left = [
            one.pid for one in psutil.process_iter() if one.pid not in above and str(folder) in " ".join(_words(one))
        ]
        print(f"processes left: {left or 'none'}")
    finally:
        for mount in mounts:
            subprocess.run(["umount", "-l", str(mount)], check=False)
    sys.exit(0 if good and status["phase"] == "ended" and not left else 1)


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


def _strike_until_over(arena: Arena, run: HubRun, rounds: int) -> list[str]:
    """Strike once in every round, until the run is over."""
    struck: list[str] = []
    began = time.monotonic()
    last = 0
    while run.status["phase"] not in OVER and time.monotonic() - began < 600 * rounds:
        number = run.status["round"] + 1
        if number > last and any(one["step"] == "training" for one in run.status["silos"].values()):
            time.sleep(arena.draw.uniform(0.0, 1.5))
            words = arena.strike(len(struck) + 1)
            struck.append(words)
            print(f"{time.monotonic() - began:7.1f} s  round {number}: {words}", flush=True)
            last = number
        time.sleep(0.2)
    return struck


def _account(trial: Trial, handed: HubRun, run: Run, struck: list[str]) -> bool:
    """Print what must hold at the end; whether it does comes back."""
    expected = amity.run(run, trial.silos)
    assert isinstance(expected, amity.Result)
    equal, twice = 0, []
    for name in trial.names:
        ours = load_file(trial.results(name, "long") / "model.safetensors")
        equal += all(torch.equal(ours[key], value) for key, value in expected.model(name).state_dict().items())
        log = (trial.folder / f"{name}-state" / "worker.log").read_text()
        turns = Counter(re.findall(r"run long, state: round (\d+) is trained and saved", log))
        twice += [f"{name} round {number}" for number, count in turns.items() if count > 1]
    lines = read(handed.folder / "record").lines
    complete = [line["round"] for line in lines] == list(range(1, run.rounds + 1))
    print(f"blows: {len(struck)}; jobs handed in: {handed.job['number']}")
    print(f"models equal to the simulator's: {equal} of {len(trial.names)}")
    print(f"rounds on record: {len(lines)} of {run.rounds}, each once: {complete}")
    print(f"rounds trained twice: {', '.join(twice) or 'none'}")
    return equal == len(trial.names) and complete and not twice


if __name__ == "__main__":
    main()
