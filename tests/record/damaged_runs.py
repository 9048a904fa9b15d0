"""Small runs on digits, finished, interrupted and killed, to be copied and damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from listening import run_ready
from safetensors.torch import load_file

from amity import Run, deal, load, record
from amity.prepare import Prepared, prepare

ROUNDS, STOP = 4, 3


class Killed(BaseException):
    """Not an Exception, and no interrupt: nothing is tidied up."""


STOPPED: Mapping[str, type[BaseException] | None] = {
    "finished": None,
    "interrupted": KeyboardInterrupt,
    "killed": Killed,
}
Runs = Mapping[tuple[str, str], Path]
"""Run directories, by method and state."""

CASES = [("separate", "interrupted"), *(("fedamp", state) for state in STOPPED)]


@cache
def ready(method: str) -> Prepared:
    run = Run(method, data="digits", model="mlr", rounds=ROUNDS, epochs=1, per_silo=20, workers=1)
    return prepare(run, deal(load("digits"), "iid", 2, seed=0))


def stop(how: type[BaseException] | None) -> Callable[[dict[str, Any]], None]:
    def after(line: dict[str, Any]) -> None:
        if how is not None and line["round"] == STOP:
            raise how

    return after


def files_of(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


def without_time(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "seconds"}


def plain(value: Any) -> Any:
    """As text in which every bit shows."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tobytes().hex()]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def reported(path: Path) -> Any:
    """All that reports, tables and experiments take from a run directory."""
    run = record.read(path)
    found = [run.config, run.facts, run.silos, run.manifest, run.results, run.weights, run.predictions]
    # A run whose results are written anew ends once more, at another time.
    events = [event._replace(time=0.0) if event.what == "ended" else event for event in run.events]
    return plain([*found, [without_time(line) for line in run.lines], events if run.summary else "none has a checksum"])


def resumed(path: Path, method: str) -> Any:
    """Everything that the run found, when it has come to its end. Events that are lost must have been told."""
    said: list[str] = []
    run_ready(ready(method), out=path, resume=True, note=said.append)
    run = record.read(path)
    recorded = {event.round for event in run.events if event.what == "recorded"}
    assert recorded == set(range(1, ROUNDS + 1)) or any("events.jsonl" in note for note in said)
    files = sorted((path / "models").glob("*.safetensors"))
    models = {file.name: {key: value.numpy() for key, value in load_file(file).items()} for file in files}
    summary, lines = without_time(run.results), [without_time(line) for line in run.lines]
    return plain([run.config, run.facts, run.manifest, summary, run.weights, run.predictions, models, lines])


def damaged_copy(runs: Runs, tmp_path: Path, state: str, *names: str) -> Path:
    path = tmp_path / "run"
    shutil.copytree(runs["fedamp", state], path)
    for name in names:
        content = bytearray((path / name).read_bytes())
        content[len(content) // 2] ^= 1
        (path / name).write_bytes(content)
    return path
