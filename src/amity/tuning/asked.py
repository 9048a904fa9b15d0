"""The directory of a search: what was asked for, so that two searches are never mixed, and what was found."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NotRequired, TypedDict

from amity.config.options import names_of
from amity.config.run import Run
from amity.data import Silos
from amity.errors import InputError
from amity.record import make_folder, replacing
from amity.record.configuration import as_written, config_text
from amity.record.lock import Lock
from amity.tuning.space import Choices, Range, Space
from amity.tuning.trial import Trial

ASKED = "tune.json"
TRIALS_FILE = "trials.csv"
BEST = "best.toml"

AFTER_ENDING = "after their ending"

NEUTRAL = names_of(Run, lambda role: role.neutral)


class AskedFile(TypedDict):
    """The contents of `tune.json`: what was searched, so that another search is not mixed with it."""

    run: dict[str, Any]
    space: dict[str, list[Any]]
    seeds: list[int]
    trial_rounds: int
    data: list[str]  # hashes of the silos that trials see, one per seed
    judged: NotRequired[str]  # by which models, where these are not those of the best round


def asked_of(
    run: Run, space: Space, bases: Sequence[Run], rounds: int, hidden: Mapping[int, Silos], after_ending: bool
) -> AskedFile:
    table = {key: value for key, value in run.table().items() if key not in NEUTRAL}
    asked: AskedFile = {
        "run": table,
        "space": {name: _listed(dimension) for name, dimension in space.items()},
        "seeds": [base.seed for base in bases],
        "trial_rounds": rounds,
        "data": [hidden[base.seed].sha256 for base in bases],
    }
    return {**asked, "judged": AFTER_ENDING} if after_ending else asked


def _listed(dimension: Range | Choices) -> list[Any]:
    return list(dimension.values) if isinstance(dimension, Choices) else list(dimension)


def check_asked(place: Path, asked: AskedFile) -> None:
    """Refuse to go on with another search than the one that is there; write down what is asked where there is none."""
    file = place / ASKED
    now: AskedFile = json.loads(json.dumps(asked))
    if not file.exists():
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return
    try:
        before = json.loads(file.read_bytes())
        if not isinstance(before, dict) or not isinstance(before.get("run"), dict):
            raise ValueError("it is not what a search writes")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read ({error}): give another --out") from None
    if before != now:
        raise InputError(f"{file.parent} holds another search, {_difference(before, now)}: give another --out")


def _difference(before: Any, now: AskedFile) -> str:
    """Return the first thing in which two searches differ."""
    flat = [{**table.get("run", {}), **{k: v for k, v in table.items() if k != "run"}} for table in (before, now)]
    for key in flat[1]:
        if flat[0].get(key) != flat[1][key]:
            return "on other data" if key == "data" else f"with {key} = {flat[0].get(key)!r}, got {flat[1][key]!r}"
    return "of another kind"


@contextmanager
def search_directory(out: str | Path | None) -> Iterator[Path]:
    """Give the directory of the search, locked, or a passing one where nothing is to be kept."""
    if out is None:
        with TemporaryDirectory(prefix="amity-") as folder:
            yield Path(folder)
        return
    try:
        make_folder(Path(out))
    except OSError as error:
        raise InputError(f"a search needs a directory, got {out} ({error.strerror}): give another --out") from None
    lock = Lock(Path(out))
    try:
        yield Path(out)
    finally:
        lock.release()


def write_found(place: Path, run: Run, trials: Sequence[Trial]) -> None:
    """Write the best run as a config file, and all trials as a table."""
    with replacing(place / BEST) as temporary:
        temporary.write_bytes(config_text(as_written(run.table())))
    names = list(dict.fromkeys(name for trial in trials for name in trial.values))
    with replacing(place / TRIALS_FILE) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["trial", "state", "validation", "rounds", "seconds", *names, "words"])
        for trial in trials:
            own = [trial.values.get(name, "") for name in names]
            told = (trial.number, trial.state, f"{trial.validation:.4f}", len(trial.steps), f"{trial.seconds:.1f}")
            lines.writerow([*told, *own, trial.words])
