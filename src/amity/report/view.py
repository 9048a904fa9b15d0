"""The view of one run or of several: all that a page shows, as JSON (`contents.py` has every key).

Made from records alone, of runs that are finished or under way. Each part has a file of its own:

    view_methods.py   the table: a row for each method
    view_worth.py     was joining worth it? verdicts for every silo
    view_course.py    how each run went, round by round
    view_ending.py    how silos went on alone after the last round
    view_privacy.py   what each silo has spent under differential privacy
    view_weights.py   who learns from whom, packed
    view_alarms.py    what to know before trusting a run
    view_events.py    events in plain words
    view_command.py   the command that repeats a run
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import tomli_w

from amity.config.ending import all_rounds
from amity.config.references import REFERENCES
from amity.errors import InputError
from amity.metric import ACCURACY, METRICS
from amity.record import Record, make_folder
from amity.record.files import not_written
from amity.record.files import replace as put
from amity.record.sharing import try_folder
from amity.report.contents import VERSION, RunView, ScoreView, SiloView, View
from amity.report.series import Series, series_of
from amity.report.table import main_score, no_best
from amity.report.view_alarms import attention_alarms, course_alarms
from amity.report.view_command import command_of
from amity.report.view_course import course_of, placed
from amity.report.view_ending import ending_of
from amity.report.view_events import last_events
from amity.report.view_methods import columns_of, methods_of, remarks_of
from amity.report.view_privacy import privacy_of
from amity.report.view_weights import MOST_TEXT, weights_of
from amity.report.view_worth import worth_of


def view_of(records: Sequence[Record], *, title: str | None = None) -> View:
    """Return the view of these runs. `live` is left empty: whoever watches runs fills it in."""
    if not records:
        raise InputError("a report needs at least one run, got none: give run directories")
    series = series_of(records)
    runs = [run for one in series for run in one.runs]
    silos = _silos(runs)
    worth, why_no_worth = worth_of(series)
    room = MOST_TEXT // max(1, sum(bool(run.weights) for run in runs))
    return {
        "version": VERSION,
        "amity": version("amity"),
        "made": time.time(),
        "title": title or _title(series),
        "score": _score(main_score(runs)),
        "data": _each_once(run.results["data"] for run in runs),
        "setting": _each_once(run.results["setting"] for run in runs),
        "model": _each_once(run.results["model"] for run in runs),
        "classes": _classes(runs),
        "label": next((label for run in runs if (label := run.facts.get("label"))), None),
        "features": next((list(names) for run in runs if (names := run.facts.get("features"))), None),
        "silos": silos,
        "notes": _notes(series),
        "methods": methods_of(series, records, worth),
        "table": columns_of(records, worth),
        "why_no_best": no_best(records),
        "remarks": remarks_of(records, worth),
        "worth": worth,
        "why_no_worth": why_no_worth,
        "runs": [_run(name, run, silos, room) for name, run in named_runs(series)],
        "live": None,
    }


def to_json(view: View) -> bytes:
    """Return a view as JSON text, which has no NaN."""
    return json.dumps(view, allow_nan=False, separators=(",", ":")).encode()


def check_view_file(path: Path) -> None:
    """Refuse a file that a view cannot go to; whoever has more to write asks this before anything."""
    if path.is_dir():
        raise InputError(f"cannot write the view to {path}, which is a directory: give a file, such as view.json")
    try:
        try_folder(path.parent)
    except OSError as error:
        raise not_written(error, f"cannot write the view to {path} ({error.strerror}): give another path") from error


def write_view(view: View, path: Path) -> Path:
    """Write a view to a file, and the folders above it."""
    check_view_file(path)
    try:
        make_folder(path.parent)
        put(path, to_json(view))
    except OSError as error:
        raise not_written(error, f"cannot write the view to {path} ({error.strerror}): give another path") from error
    return path


def named_runs(series: Sequence[Series]) -> list[tuple[str, Record]]:
    """Return every run with its method's name, and its seed where there are several; `View.runs` has this order."""
    return [
        (one.name if len(one.runs) == 1 else f"{one.name}, seed {seed}", run)
        for one in series
        for seed, run in zip(one.seeds, one.runs, strict=True)
    ]


def _title(series: Sequence[Series]) -> str:
    if len(series) == 1:
        return series[0].name
    names = [one.name for one in series if one.first.results["method"] not in REFERENCES]
    return names[0] if len(names) == 1 else f"{len(names) or len(series)} methods compared"


def _each_once(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _score(key: str) -> ScoreView:
    metric = METRICS[key]
    return {"key": key, "title": metric.title, "unit": metric.unit, "better": metric.better}


def empty_view(title: str, made: float | None = None) -> View:
    """Return a view without any run, for pages that have something else to show."""
    return {
        "version": VERSION,
        "amity": version("amity"),
        "made": time.time() if made is None else made,
        "title": title,
        "score": _score(ACCURACY.key),
        "data": "",
        "setting": "",
        "model": "",
        "classes": None,
        "label": None,
        "features": None,
        "silos": [],
        "notes": [],
        "methods": [],
        "table": {},
        "why_no_best": "",
        "remarks": [],
        "worth": [],
        "why_no_worth": "",
        "runs": [],
        "live": None,
    }


def _classes(runs: Sequence[Record]) -> list[str] | None:
    """Return the names of the classes; None where labels are quantities."""
    for run in runs:
        if labels := run.facts.get("labels"):
            return list(labels)
        if run.manifest is not None and run.manifest["classes"]:
            return [str(number) for number in range(run.manifest["classes"])]
    return None


def _silos(runs: Sequence[Record]) -> list[SiloView]:
    """Return the silos of all runs, each once, with what the first run that tells it says of them.

    A reference that has all data in one place tells nothing of silos, so it is asked last.
    """
    asked = sorted(runs, key=lambda run: run.results["method"] == "pooled")
    found: dict[str, SiloView] = {name: _silo(name) for run in runs for name in run.silos}
    for run in asked:
        for name, group in zip(run.silos, run.facts.get("groups") or [None] * len(run.silos), strict=True):
            if found[name]["group"] is None:
                found[name]["group"] = group
        manifest = run.manifest
        for held in manifest["silos"] if manifest is not None else ():
            if held["name"] in found and found[held["name"]]["train"] is None:
                val = None if held["val"] is None else sum(held["val"])
                told = found[held["name"]]
                told["train"], told["val"], told["test"] = sum(held["train"]), val, sum(held["test"])
                told["held"] = list(held["train"]) if manifest and manifest["classes"] else None
    return list(found.values())


def _silo(name: str) -> SiloView:
    return {"name": name, "group": None, "train": None, "val": None, "test": None, "held": None}


def _notes(series: Sequence[Series]) -> list[str]:
    """Return the notes that runs made on their data when they began, each once, and what seeds mean for silos."""
    notes = dict.fromkeys(note for one in series for run in one.runs for note in run.facts.get("notes", []))
    several = next((one for one in series if len(one.runs) > 1 and not one.same_silos), None)
    anew = []
    if several is not None:
        anew = [f"silos are dealt anew with every seed: what each holds is shown for seed {several.seeds[0]}"]
    return [*notes, *anew]


def _run(name: str, run: Record, silos: Sequence[SiloView], room: int) -> RunView:
    names = [silo["name"] for silo in silos]
    places = [names.index(silo) for silo in run.silos]
    return {
        "name": name,
        "seed": run.results["seed"],
        "folder": run.path.name,
        "finished": run.summary is not None and len(run.lines) >= all_rounds(run.config),
        "asked": all_rounds(run.config) if "rounds" in run.config else len(run.lines),
        "delivered_round": run.results.get("delivered_round"),
        "delivered": placed(run.results["per_client"], places, len(silos)),
        "course": course_of(run, names),
        "weights": weights_of(run.weights, places, len(silos), [silo["group"] for silo in silos], room),
        "alarms": [*course_alarms(run), *attention_alarms(run.weights, run.silos)],
        "config": tomli_w.dumps(run.config),
        "facts": _facts(run),
        "command": command_of(run),
        "events": last_events(run.events),
        "ending": ending_of(run),
        "privacy": privacy_of(run),
    }


def _facts(run: Record) -> dict[str, str]:
    """Return what is known of a run beside its configuration, as text."""
    told: Mapping[str, object] = {**run.facts}
    kept = ("version", "engine", "method", "data", "setting", "model", "clients", "seed", "score", "sha256")
    facts = {key: str(told[key]) for key in (*kept, "test_sha256") if told.get(key) is not None}
    if executed := run.lines[-1].get("executed") if run.lines else None:
        facts["executed"] = executed
    if features := run.facts.get("features"):
        facts["features"] = f"{len(features):,}"
    facts["seconds"] = f"{run.results['seconds']:.1f}"
    return facts
