"""Every file of run directories damaged in five ways, and then used: resumed, reported, predicted with, exported, seen.

Three runs are made by the command line: one that has come to its end, one that was interrupted (SIGTERM), one that
was killed (-9), each with every silo alone beside it. Whatever is done with a damaged one must be refused in lines
that are for its user, with the directory as it was; or come to what it comes to without damage; or say what is wrong.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open

from amity.watch.watcher import Watcher
from benchmarks.soak.command import Said, alone_on_disk, call, files_of
from benchmarks.soak.runs import found
from benchmarks.soak.tally import Tally
from benchmarks.soak.world import SILOS, clinics

WORDS = (
    "run fedamp --data folder:clinics --model mlr --rounds 6 --epochs 40 --val-fraction 0.25 --workers 1 --out run"
).split()
STATES: Mapping[str, int | None] = {"finished": None, "interrupted": signal.SIGTERM, "killed": signal.SIGKILL}
FOREIGN = b'\x89PNG\r\n\x1a\n{"a": 1}\n[x]\n' + bytes(range(256))


class Use(NamedTuple):
    """What a use has said and come to."""

    said: Said
    result: Any


def soak(tally: Tally, folder: Path) -> None:
    """Damage and use."""
    draw = random.Random(f"damage {tally.seed}")
    with alone_on_disk(folder):
        for state, how in STATES.items():
            place = folder / state
            make(place, how)
            shutil.copytree(place / "run", folder / "whole")
            uses = {name: use for name, use in USES.items() if how is None or name in ("resume", "report", "watch")}
            wanted = {name: used(place, folder / "whole", use) for name, use in uses.items()}
            for name, one in wanted.items():
                if one.said.code != 0:
                    raise RuntimeError(f"{name} of a {state} run does not work: {one.said.err}")
            files = [name for name, content in files_of(folder / "whole").items() if content is not None]
            for name in draw.sample(files, 3) if tally.quick else files:
                tally.add("files damaged")
                for kind, content in damages(draw, folder / "whole", name):
                    for use in uses:
                        place_again(place, folder / "whole", name, content)
                        judge(tally, f"{state} run, {name} {kind}, {use}", place, name, uses[use], wanted[use])
            shutil.rmtree(folder / "whole")


def make(place: Path, how: int | None) -> None:
    """Make a run, and end its process where that is wanted, when some rounds are on disk."""
    clinics(place / "clinics")
    (place / "new.csv").write_text("pressure,sugar,ward\n1,0.5,a\n0.5,2,b\n")
    command, quiet = [sys.executable, "-m", "amity", *WORDS], subprocess.DEVNULL
    with subprocess.Popen(command, cwd=place, stdout=quiet, stderr=subprocess.PIPE) as process:
        rounds = place / "run" / "rounds.jsonl"
        while how is not None and process.poll() is None:
            if rounds.exists() and rounds.read_bytes().count(b"\n") >= 3:
                process.send_signal(how)
                break
            time.sleep(0.002)
        _, err = process.communicate(timeout=120)
    if process.returncode != (0 if how is None else -9 if how == signal.SIGKILL else 128 + how):
        raise RuntimeError(f"the run did not come to be: {err.decode()[-300:]}")


def damages(draw: random.Random, whole: Path, name: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield what becomes of a file: five ways, and what it then holds; None: it is gone."""
    content = (whole / name).read_bytes()
    if content:
        at = draw.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[at // 8] ^= 1 << at % 8
        yield f"with bit {at} flipped", bytes(flipped)
        short = draw.randrange(len(content))
        yield f"cut short to {short} bytes", content[:short]
        yield "emptied", b""
    yield "gone", None
    others = [other for other in whole.rglob(f"*{Path(name).suffix}") if other.is_file() and other != whole / name]
    swapped = draw.choice(others).read_bytes() if others and draw.random() < 0.5 else FOREIGN
    if swapped != content:
        yield "with foreign content" if swapped == FOREIGN else "with another file's content", swapped


def place_again(place: Path, whole: Path, name: str, content: bytes | None) -> None:
    """Put the whole run into its place, with one file damaged."""
    shutil.rmtree(place / "run", ignore_errors=True)
    shutil.copytree(whole, place / "run")
    if content is None:
        (place / "run" / name).unlink()
    else:
        (place / "run" / name).write_bytes(content)


def judge(tally: Tally, called: str, place: Path, name: str, use: Callable[[Path], Use], wanted: Use) -> None:
    """Use a damaged run, and count how it came out."""
    before = files_of(place / "run")
    try:
        one = use(place)
    except Exception as error:
        tally.fail(f"{called}: {type(error).__name__}: {error}")
        return
    finally:
        tally.tried += 1
    if one.said.code == 2:
        if not one.said.refused:
            tally.fail(f"{called}: not lines for its user: {one.said.err[-300:]}")
        elif files_of(place / "run") != before:
            after = files_of(place / "run")
            other = sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
            tally.fail(f"{called}: refused, and yet the directory is another: {other}")
        tally.add("refused")
    elif one.said.code != 0:
        tally.fail(f"{called}: exit code {one.said.code}: {one.said.err.strip()[-400:]}")
    else:
        told = told_of(one.said, wanted.said) or told_of_view(one.result, wanted.result)
        if one.result == wanted.result:
            tally.add("as good as whole, and said" if told else "as good as whole")
        elif told:
            tally.add("another result, and said")
        elif called.startswith("killed") and name.endswith("events.jsonl"):
            tally.add("events of a run under way, whose damage is seen when it is resumed (docs/runs.md)")
        elif called.startswith(
            "killed run, rounds.jsonl cut short"
        ):  # after the checkpoint's round, else it is refused
            tally.add("a round that no checkpoint had yet, lost as by a blow a moment earlier")
        else:
            differ = [key for key, value in wanted.result.items() if one.result.get(key) != value]
            tally.fail(f"{called}: another result, without a word: {differ[:5]}")


def told_of(said: Said, usual: Said) -> bool:
    """Return whether something is said that is not said of a whole run."""
    known = {line.strip() for line in (usual.out + usual.err).splitlines()}
    words = ("damaged", "missing", "cannot be read", "not as it was written", "lost", "anew", "not complete", "no run")
    new = [line for line in (said.out + said.err).splitlines() if line.strip() not in known]
    return any(word in line for line in new for word in words)


def told_of_view(result: Any, usual: Any) -> bool:
    """Return the same of what a live page shows."""
    texts, known = set(_texts(result)), set(_texts(usual))
    words = ("damaged", "missing", "cannot", "not as it was", "no run", "lost", "is not", "waiting")
    return any(word in text for text in texts - known for word in words)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def used(place: Path, whole: Path, use: Callable[[Path], Use]) -> Use:
    """Use the run as it is."""
    shutil.rmtree(place / "run", ignore_errors=True)
    shutil.copytree(whole, place / "run")
    return use(place)


def timeless(value: Any) -> Any:
    """Return what a page shows without the time at which it was made."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in ("made", "now", "number", "stamp")}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def resume(place: Path) -> Use:
    """Resume it to its end."""
    said = call(place, *WORDS, "--resume")
    return Use(said, found(place / "run") if said.code == 0 else {})


def report(place: Path) -> Use:
    """Make its report, elsewhere."""
    said = call(place, "report", "run", "--out", "made/report.html", "--json", "made/view.json")
    return Use(said, _taken(place, lambda folder: timeless(json.loads((folder / "view.json").read_text()))))


def predict(place: Path) -> Use:
    """Predict with a silo's model."""
    (place / "made").mkdir()
    said = call(place, "predict", "run", "--data", "new.csv", "--silo", SILOS[0], "--out", "made/new.csv")
    return Use(said, _taken(place, lambda folder: {"predictions": (folder / "new.csv").read_text()}))


def export(place: Path) -> Use:
    """Export a silo's model."""
    (place / "made").mkdir()
    said = call(place, "export", "run", "--silo", SILOS[1], "--to", "safetensors", "--out", "made/model.safetensors")
    return Use(said, _taken(place, lambda folder: _tensors(folder / "model.safetensors")))


def watch(place: Path) -> Use:
    """Look at it as the live page does."""
    watcher = Watcher([place / "run"], clock=lambda: 2e9)
    watcher.look(hurry=True)  # trouble is told when it is there at a second look: files change while they are read
    seen: dict[str, Any] = timeless(json.loads(watcher.view(hurry=True))["view"])
    return Use(Said(0, "", ""), seen)


def _tensors(file: Path) -> dict[str, Any]:
    """Return all that a safetensors file holds, whose notes are in no certain order."""
    with safe_open(file, framework="numpy") as model:
        tensors = {key: model.get_tensor(key).tobytes() for key in model.keys()}
        return {"tensors": tensors, "notes": dict(model.metadata() or {})}


def _taken(place: Path, read: Callable[[Path], Any]) -> Any:
    """Return what a command has written to `made`, which is removed."""
    folder = place / "made"
    try:
        return read(folder) if folder.exists() and any(folder.iterdir()) else {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


USES: Mapping[str, Callable[[Path], Use]] = {
    "resume": resume,
    "report": report,
    "predict": predict,
    "export": export,
    "watch": watch,
}
