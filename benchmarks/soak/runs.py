"""Small runs of random options, each made twice: as it is, and stopped at a random event, then resumed.

What must hold: a combination is refused in one line before anything is written, or both runs come to the same end,
bit by bit; the directory is read without complaint, every number in models and scores is finite, and the report is
made. Under differential privacy every silo draws its own secret noise, so that two runs differ; there the rest must
hold.
"""

from __future__ import annotations

import math
import random
import shutil
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import amity
from amity import record
from amity.cli.report import run_directories
from amity.errors import AmityError
from amity.federation.events import Event
from amity.methods.table import BUILT_IN
from amity.report import write_report
from benchmarks.soak.command import TooLong, within
from benchmarks.soak.tally import Tally

RUNS, QUICK = 240, 12  # runs that come to their end
LONGEST = 60.0  # seconds for one run


def soak(tally: Tally, folder: Path) -> None:
    """Make runs until enough have come to their end."""
    draw = random.Random(f"runs {tally.seed}")
    wanted = QUICK if tally.quick else RUNS
    methods = sorted(BUILT_IN)
    draw.shuffle(methods)
    number = 0
    while tally.counts["came to its end"] < wanted and number < 20 * wanted:
        options = drawn(draw, methods[number % len(methods)])
        number += 1
        try:
            tried(tally, options, draw, folder / str(number))
        except (Exception, TooLong):
            tally.fail(f"{options}: {traceback.format_exc(limit=-3)}")
        shutil.rmtree(folder / str(number), ignore_errors=True)
    tally.tried = number


def drawn(draw: random.Random, method: str) -> dict[str, Any]:
    """Return the options of a run, most of which are left out in most runs."""
    pick = draw.choice
    setting = pick(
        ["iid", "pathological", "practical", "dirichlet:alpha=0.5", "dirichlet:alpha=0.05", "shards", "scarce"]
    )
    options: dict[str, Any] = {
        "method": method,
        "data": pick(["synthetic", "synthetic", "digits"]),
        "setting": setting,
        "clients": pick([1, 2, 3, 4, 5, 6, 8]) if setting != "shards" else 12,
        "per_silo": pick([1, 3, 10, 25, 40]),
        "model": pick(["mlr", "mlr", "mlp"]),
        "rounds": pick([1, 2, 3, 4]),
        "epochs": pick([1, 1, 2]),
        "engine": pick(["auto", "loop", "memory", "memory", "stacked"]),
        "workers": pick([1, 1, 2]),
        "seed": draw.randrange(1000),
    }
    rare: dict[str, Callable[[], Any]] = {
        "participation": lambda: pick([0.01, 0.3, 0.5, 0.9]),
        "drop": lambda: pick([0.1, 0.5, 0.9]),
        "drop_phase": lambda: pick(["before", "after"]),
        "local_epochs_range": lambda: pick(["1:1", "1:3", "2:4"]),
        "ending": lambda: pick(["none", "auto", 1, 2]),
        "safe": lambda: True,
        "robust": lambda: pick(["norm", "median", "trimmed", "krum", "clip"]),
        "min_mix": lambda: pick([2, 3, 5]),
        "val_fraction": lambda: pick([0.0, 0.2, 0.5]),
        "metric": lambda: pick(["balanced_accuracy", "macro_f1", "auroc"]),
        "class_weights": lambda: "balanced",
        "evaluate_every": lambda: pick([2, 3, 7]),
        "train_loss": lambda: True,
        "checkpoint_every": lambda: pick([0, 1, 2, 3]),
        "batch": lambda: pick([1, 2, 7, 1000]),
        "optimizer": lambda: pick(["adam", "sgd"]),
        "momentum": lambda: pick([0.0, 0.5]),
        "lr_decay": lambda: pick([0.5, 0.99]),
        "dp_noise": lambda: pick([0.5, 2.0]),
    }
    for name, value in rare.items():
        if draw.random() < (0.04 if name == "dp_noise" else 0.18):
            options[name] = value()
    return options


def tried(tally: Tally, options: dict[str, Any], draw: random.Random, folder: Path) -> None:
    """Make a run twice and compare."""
    folder.mkdir()
    first, second = folder / "first", folder / "second"
    alone = draw.random() < 0.2
    try:
        run = amity.Run(**options)
        made(run, first, alone=alone)
    except AmityError as error:
        tally.add("combinations refused in one line, with nothing written")
        if "\n" in str(error) or not str(error):
            tally.fail(f"{options}: a refusal that is not one line: {error!r}")
        if first.exists():
            tally.fail(f"{options}: refused ({error}), and yet something is written")
        return
    events = len(record.read(first).events)
    moment = draw.randrange(1, events + 1)
    again = "made again, without a stop"
    try:
        made(run, second, alone=alone, listen=stop_at(moment))
    except KeyboardInterrupt:
        again = "made again, stopped at a random event and resumed"
        other = {**options, "workers": draw.choice([1, 2]), "checkpoint_every": draw.choice([0, 1, 2])}
        made(amity.Run(**other), second, alone=alone, resume=True)
    tally.add("came to its end")
    tally.add(again)
    for name in ("first", "second"):
        for problem in look(folder / name):
            tally.fail(f"{options}: {name}: {problem}")
    if run.privacy is not None:
        tally.add("with secret noise, not compared")
    elif (one := found(first)) != (other_one := found(second)):
        differ = [key for key in one if one[key] != other_one.get(key)]
        tally.fail(f"{options}: stopped at event {moment} of {events}, it comes to another end: {differ}")


def made(run: amity.Run, out: Path, **how: Any) -> None:
    """Run it, with a record."""
    with warnings.catch_warnings(), within(LONGEST):
        warnings.simplefilter("ignore")  # notes about resuming
        amity.run(run, out=out, **how)


def stop_at(moment: int) -> Callable[[Event], None]:
    """Return a listener that interrupts the run at its so-and-so-many-th event."""
    count = 0

    def listen(event: Event) -> None:
        nonlocal count
        count += 1
        if count == moment:
            raise KeyboardInterrupt

    return listen


def look(path: Path) -> list[str]:
    """Return what is wrong with a finished run."""
    problems = []
    for place in run_directories(path):
        run = record.read(place)
        if run.summary is None or not run.has_models:
            problems.append("it has no results")
        for file in sorted(place.glob("models/*.safetensors")):
            if not all(bool(torch.isfinite(value).all()) for value in load_file(file).values()):
                problems.append(f"{file.name} has numbers that are not finite")
        scores = [line["mean"] for line in run.lines if line["mean"] is not None]
        if not all(map(math.isfinite, scores)):
            problems.append("a score is not finite")
    written = write_report([record.read(place) for place in run_directories(path)], path / "report.html")
    if b"</html>" not in written.read_bytes():
        problems.append("the report has no end")
    return problems


def found(path: Path) -> dict[str, Any]:
    """Return all that runs have found, with every bit."""
    out: dict[str, Any] = {}
    for place in run_directories(path):
        run, name = record.read(place), str(place.relative_to(path))
        told = ("seconds", "executed")  # which depend on the process
        lines: list[dict[str, Any]] = [{k: v for k, v in line.items() if k not in told} for line in run.lines]
        for (
            line
        ) in lines:  # a process says once that its engine cannot stack silos: that is of the process, not of the run
            line["warnings"] = [text for text in line["warnings"] if not text.startswith("engine = stacked is not")]
        results = {k: v for k, v in run.results.items() if k != "seconds"}
        out[f"{name}: rounds"], out[f"{name}: results"] = repr(lines), repr(results)
        for number, matrix in run.weights.items():
            out[f"{name}: weights {number}"] = matrix.tobytes()
        for silo, arrays in run.predictions.items():
            out[f"{name}: predictions {silo}"] = {key: value.tobytes() for key, value in arrays.items()}
        for file in sorted(place.glob("*/*.safetensors")):
            if file.parent.name in ("models", "clouds"):
                out[f"{name}: {file.parent.name}/{file.name}"] = file.read_bytes()
    return out
