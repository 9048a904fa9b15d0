"""The numbers of a run as trackers take them: one flat table of names and values per round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amity import statistics
from amity.record import Line, Record, Summary, file_names
from amity.record.contents import Number, Scores
from amity.record.summary import score_of

SUMMED_UP: tuple[Number, ...] = (
    *("delivered", "worst", "spread", "last", "best_on_test", "block_score"),
    *("seconds", "bytes_up", "bytes_down", "bytes_eval"),
)
"""The numbers of a summary that are logged."""


def parameters_of(record: Record) -> dict[str, str | float | bool]:
    """Return every option of a run; those of its method are named as in "set.sigma"."""
    own = {f"set.{key}": value for key, value in record.config.get("set", {}).items()}
    flat = {**{key: value for key, value in record.config.items() if key != "set"}, **own}
    return {key: value if isinstance(value, (bool, int, float)) else str(value) for key, value in flat.items()}


def values_of(line: Line, record: Record) -> dict[str, float]:
    """Return the numbers of a round by name, those of each silo under `silo/NAME/`; undefined ones are left out."""
    main = score_of(record.facts)
    found: dict[str, float | None] = {"mean": line["mean"], "worst": line["worst"], "val": line.get("val")}
    for name, value in (line.get("metrics") or {}).items():
        found[f"metrics/{name}"] = value
    own: dict[str, Scores | None] = {main: _scores(line, main)}
    own |= {"loss": line.get("loss"), "train_loss": line.get("train_loss")}
    found |= {name: _mean(own[name]) for name in ("loss", "train_loss")}
    found["silos/took_part"] = len(line.get("took_part", []))
    found["silos/dropped"] = len(line.get("dropped", {}))
    found["collaborators"] = line.get("collaborators")
    found |= {f"bytes/{way}": _scores(line, f"bytes_{way}") for way in ("up", "down", "eval")}
    found |= {f"seconds/{phase}": seconds for phase, seconds in line["seconds"].items()}
    found["seconds/total"] = math.fsum(seconds for seconds in line["seconds"].values() if seconds is not None)
    found |= _per_silo({**own, **(line.get("per_silo") or {})}, file_names(record.silos).values())
    return dict(_defined(found))


def summary_of(summary: Summary) -> dict[str, float]:
    """Return the numbers that a run comes to."""
    return dict(_defined({name: summary.get(name) for name in SUMMED_UP}))


def _scores(line: Mapping[str, Any], key: str) -> Any:
    return line.get(key)


def _mean(values: Scores | None) -> float | None:
    return statistics.mean([math.nan if value is None else value for value in values]) if values else None


def _per_silo(own: Mapping[str, Scores | None], silos: Iterable[str]) -> dict[str, float | None]:
    """Return each silo's own numbers. Silos are called as their files are, for a name may hold anything."""
    names = list(silos)
    tables = {key: values for key, values in own.items() if values}
    return {
        f"silo/{silo}/{key}": value for key, values in tables.items() for silo, value in zip(names, values, strict=True)
    }


def _defined(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if value is not None and math.isfinite(value):
            yield name, float(value)
