"""docs/deploy.md is true: its commands lead three organisations to a first run, and its keys and messages exist."""

from __future__ import annotations

import ast
import csv
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from amity.engines.flare.kits.consortium import Consortium
from amity.federation.contract_rules import ELSEWHERE
from amity.federation.policy import SiloPolicy
from amity.federation.run_contract import Limits
from amity.hub import board, run_data, run_file
from amity.site.config import Site

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
GUIDE = PAGE.partition("## From nothing to a first run")[2].partition("\n## ")[0]

SILOS = ("north", "south", "east")
ENOUGH_AT_ONE = ("check", "verdict", "predict")  # commands that are tried at the first silo alone, to save time
PATIENCE = 180.0  # seconds, for a machine that has much else to do


class Step(NamedTuple):
    """A block of the guide: a file to be written, or commands."""

    who: str  # coordinator or silo
    file: str  # to be written; empty for commands
    is_service: bool
    text: str


def steps() -> Iterator[Step]:
    block = re.compile(r"(?:`([\w./]+)`:\n\n)?^```(toml|bash)([a-z ]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for file, language, words, text in block.findall(GUIDE):
        if language == "toml":
            yield Step("silo" if file.startswith("site/") else "coordinator", file, False, text)
        else:
            yield Step(words.split()[0], "", "service" in words, text)


STEPS = list(steps())


@pytest.mark.parametrize("who", ["coordinator", "silo"])
def test_nobody_needs_more_than_ten_commands(who: str) -> None:
    lines = [line for step in STEPS if step.who == who and not step.file for line in step.text.splitlines()]
    assert 5 < 1 + len(lines) <= 10  # the installation is one


class Street:
    """Organisations on this machine, each in a folder of its own, with `amity` on its path and a postman between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        (folder / "bin").mkdir()
        command = folder / "bin" / "amity"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m amity "$@"\n')
        command.chmod(0o755)
        for name in ("coordinator", *SILOS):
            (folder / name).mkdir()

    def take(self, step: Step) -> None:
        """Do what a step of the guide says, wherever it is to be done."""
        for name in SILOS if step.who == "silo" else ("coordinator",):
            text = step.text if name == "coordinator" else step.text.replace("north", name)
            if step.file:
                self.place(name, step.file).write_text(
                    text.replace("federation.example.org", "localhost").replace("8002", str(self.port))
                )
                continue
            for line in text.splitlines():
                if name in SILOS[1:] and line.split()[2] in ENOUGH_AT_ONE:
                    continue
                self.wait_before(name, line)
                self.serve(name, line) if step.is_service else self.call(name, line)
        self.deliver()

    def place(self, name: str, file: str) -> Path:
        return self.folder / name / file

    def call(self, name: str, line: str) -> None:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder / name,
            env=self.environment(),
            input="y\n",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"{name}: {line}\n{done.stdout}\n{done.stderr}\n{self.logs()}"

    def serve(self, name: str, line: str) -> None:
        with self.place(name, "service.log").open("ab") as log:
            self.services.append(
                subprocess.Popen(
                    ["sh", "-c", f"exec {line}"],
                    cwd=self.folder / name,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def deliver(self) -> None:
        """Bring requests and admissions, and nothing else, to whom they are for."""
        for name in SILOS:
            for file in self.place(name, "site").glob("*.request"):
                shutil.copy(file, self.folder / "coordinator")
            for file in (self.folder / "coordinator").glob(f"{name}.admission"):
                shutil.copy(file, self.folder / name)

    def wait_before(self, name: str, line: str) -> None:
        """Be as patient as a person, who looks whether the last step is done."""
        state = self.place(name, "site/state")
        waits: dict[str, Callable[[], bool]] = {
            "check": self.is_listening,
            "approve": (state / "pending" / "sepsis-1.json").exists,
            "results": lambda: self.phase() in board.OVER,
            "verdict": (state / "runs" / "sepsis-1" / "verdict.json").exists,
        }
        is_done = waits.get(line.split()[2], lambda: True)
        until = time.monotonic() + PATIENCE
        while not is_done():
            assert time.monotonic() < until, f"before {line!r} of {name}: {self.logs()}"
            assert all(service.poll() is None for service in self.services), self.logs()
            time.sleep(0.3)

    def is_listening(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0

    def phase(self) -> str:
        status = board.read_status(self.place("coordinator", "hub/runs/sepsis-1"))
        return "queued" if status is None else status["phase"]

    def logs(self) -> str:
        return "\n".join(f"{file}: {file.read_text(errors='replace')}" for file in self.folder.glob("*/service.log"))

    def end(self) -> None:
        for service in self.services:
            service.send_signal(signal.SIGTERM)
        for service in self.services:
            service.wait(60)


@contextmanager
def street(folder: Path) -> Iterator[Street]:
    found = Street(folder)
    try:
        yield found
    finally:
        found.end()


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def write_patients(file: Path, seed: int, count: int, columns: slice = slice(None)) -> None:
    """Made-up patients, in columns of one scale; the label follows from them but for some noise."""
    draw = random.Random(seed)
    with file.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["patient", "age", "pulse", "lactate", "sepsis"][columns])
        for number in range(count):
            age, pulse, lactate = (round(draw.gauss(0, 1), 3) for _ in range(3))
            ill = age + pulse + lactate + draw.gauss(0, 0.5) > 0
            table.writerow([number, age, pulse, lactate, "yes" if ill else "no"][columns])


@pytest.mark.slow  # a minute and more
def test_the_guide_leads_to_a_first_run(tmp_path: Path) -> None:
    with street(tmp_path) as here:
        for seed, name in enumerate(SILOS):
            write_patients(here.place(name, "patients.csv"), seed, 120)
            write_patients(here.place(name, "new_patients.csv"), 10 + seed, 7, slice(4))
        for step in STEPS:
            here.take(step)
        assert here.phase() == "ended"
        verdict = json.loads(here.place("north", "site/state/runs/sepsis-1/verdict.json").read_text())
        assert (verdict["silo"], verdict["rounds"]) == ("north", 5)
        with here.place("north", "predictions.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert len(rows) == 7 and {row["prediction"] for row in rows} <= {"no", "yes"}
        here.call("north", "amity federation audit site")
    check_that_no_key_has_travelled(tmp_path)


def check_that_no_key_has_travelled(folder: Path) -> None:
    """Each private key is in one place, and for its owner alone."""
    keys = [*folder.glob("*/site/key.pem"), *folder.glob("coordinator/hub/*/*.key")]
    keys += folder.glob("coordinator/hub/*/startup/*.key")
    assert len(keys) == len(SILOS) + 3  # root, server and admin
    assert all(key.stat().st_mode & 0o077 == 0 for key in keys)
    secrets = {key: key.read_bytes().splitlines()[3] for key in keys}
    for file in (file for file in folder.rglob("*") if file.is_file()):
        content = file.read_bytes()
        assert [key for key, secret in secrets.items() if secret in content and key != file] == []


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("### `consortium.toml`", [field.name for field in fields(Consortium)]),
        ("### `silo.toml`", [field.name for field in fields(Site) if field.name not in ("folder", "policy")]),
        ("### `silo.toml`", [field.name for field in fields(SiloPolicy)]),
        ("### `RUN.toml`", [key for key in run_file.KEYS if key not in ("limits", "data", "run")]),
    ],
)
def test_every_key_of_a_file_has_its_line(heading: str, keys: list[str]) -> None:
    section = PAGE.partition(heading)[2].partition("\n### ")[0].partition("\n## ")[0]
    explained = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert [key for key in keys if key not in explained] == []


def test_tables_of_a_run_file_are_explained() -> None:
    section = PAGE.partition("### `RUN.toml`")[2].partition("\n## ")[0]
    for key in (*Limits._fields, *run_data.KEYS, *ELSEWHERE):
        assert f"`{key}`" in section, key
    for number in Limits():
        assert f"({number})" in section


def test_every_state_of_a_silo_and_of_a_run_is_explained() -> None:
    section = PAGE.partition("## What to do when")[2].partition("\n### ")[0]
    first = " ".join(re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first)) == {*get_args(board.Step), *get_args(board.Phase)}


def texts_of_the_code() -> list[str]:
    """All texts of the package, with a mark where a value is put in."""
    found = []
    for file in (ROOT / "src" / "amity").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def says(text: str, message: str) -> bool:
    """Whether a text of the code can be read as this message, in which … stands for anything."""
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
    return re.search(r".*".join(parts), text, re.DOTALL) is not None


def test_the_reader_of_messages() -> None:
    assert says("\0 runs already in \0: stop", "… runs already in …: stop")
    assert not says("\0 runs already", "… runs already in …")


def test_messages_are_those_of_the_code() -> None:
    section = PAGE.partition("### Messages, and what to do")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    messages = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    assert len(messages) > 30
    texts = texts_of_the_code()
    unknown = [message for message in messages if not any(says(text, message) for text in texts)]
    assert unknown == []


def test_what_the_dockerfile_copies_is_there() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()]
    assert "pyproject.toml" in copied and [name for name in copied if not (ROOT / name).exists()] == []
    context = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in context and {f"!{name}" for name in copied} == {line for line in context if line.startswith("!")}
    assert re.findall(r"--uid (\d+)", text) == re.findall(r"user with the number (\d+)", PAGE)
