"""A server that survives: what it has agreed on and its last two rounds lie in a folder of its own.

    roster.json      who is in the run, in the order of their numbers
    current/ old/    the last round and the one before it: state.safetensors, round.json with hashes of it and of itself

A round is written aside, made sure to be on disk and put in place before any silo is told what became of its upload.
Where the newest is damaged, the one before it counts, and that is said. No silo's state is here.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from amity.contract import State
from amity.errors import DamagedFile
from amity.federation.encoding import apart
from amity.federation.plan import Member
from amity.federation.reports import Progress, Round, SettledEntry, settled_entries, settled_of
from amity.federation.safe_files import checked_json, read_checked_json, replace, swap, sync

T = TypeVar("T")

NEW, CURRENT, OLD = "new", "current", "old"
ROSTER, FACTS, STATE = "roster.json", "round.json", "state.safetensors"
_SERVER, _WEIGHTS = "server/", "weights"


class Facts(TypedDict):
    """What `round.json` holds beside the state: the round so far."""

    run: str
    round: int
    clients: int  # that the state is for: newcomers may have joined since
    sha256: str  # of the state's file
    settled: dict[str, SettledEntry]
    left: list[int]
    kept: list[int]
    took_part: list[int]
    dropped: dict[str, str]
    epochs: dict[str, int]
    bytes_up: int
    bytes_down: int
    bytes_spared: NotRequired[int]
    seconds: dict[str, float]
    warnings: list[str]


class Roster(NamedTuple):
    """Who is in a run, by number: those it began with, from whom the plan follows, and newcomers."""

    founders: tuple[Member, ...]
    joined: tuple[Member, ...]

    @property
    def members(self) -> tuple[Member, ...]:
        """All of them."""
        return *self.founders, *self.joined


class Found(NamedTuple):
    """What a server goes on from: the last round that it has saved, and a note where that is not the newest."""

    report: Round
    clients: int
    note: str | None


class StoredServer:
    """The folder of a server's run."""

    def __init__(self, folder: Path, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._run = run

    def roster(self) -> Roster:
        """Who is in the run; nobody before it has begun."""
        file = self._folder / ROSTER
        if not file.exists():
            return Roster((), ())
        try:
            content = read_checked_json(file)
            return Roster(_members(content["founders"]), _members(content["joined"]))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DamagedFile(f"{file} cannot be read ({error}): bring back a copy of {self._folder}") from None

    def save_roster(self, roster: Roster) -> None:
        """Write down who is in the run."""
        content = {key: [member._asdict() for member in members] for key, members in roster._asdict().items()}
        replace(self._folder / ROSTER, checked_json(content))

    def save(self, report: Round, clients: int) -> None:
        """Make this round the one to go on from, in a federation of so many. A crash leaves the old one or the new."""
        new = self._folder / NEW
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        progress = report.progress
        tensors = {_SERVER + key: value.detach().cpu().contiguous() for key, value in progress.server.items()}
        if report.weights is not None:
            tensors[_WEIGHTS] = report.weights
        save_file(apart(tensors), new / STATE)
        sync(new / STATE)
        facts: Facts = {
            "run": self._run,
            "round": report.round,
            "clients": clients,
            "sha256": _hash(new / STATE),
            "settled": settled_entries(progress.settled),
            "left": sorted(progress.left),
            "kept": sorted(progress.kept),
            "took_part": report.took_part,
            "dropped": _named(report.dropped),
            "epochs": _named(report.epochs),
            "bytes_up": report.bytes_up,
            "bytes_down": report.bytes_down,
            "bytes_spared": report.bytes_spared,
            "seconds": report.seconds,
            "warnings": report.warnings,
        }
        replace(new / FACTS, checked_json(facts))
        swap(new, self._folder / CURRENT, self._folder / OLD)

    def load(self) -> Found | None:
        """What to go on from: the newest round that is as it was written; None before the first."""
        trouble: DamagedFile | None = None
        for folder in (self._folder / CURRENT, self._folder / OLD):
            if not folder.exists():
                continue
            try:
                report, clients = self._report(folder)
            except DamagedFile as error:
                trouble = error
                continue
            note = None if trouble is None else f"{trouble}; went on from round {report.round}, saved before it"
            return Found(report, clients, note)
        if trouble is not None:
            raise DamagedFile(f"{trouble}, and no older one is whole: bring back a copy of {self._folder}")
        return None

    def _report(self, folder: Path) -> tuple[Round, int]:
        try:
            facts: Facts = read_checked_json(folder / FACTS)
            if _hash(folder / STATE) != facts["sha256"]:
                raise DamagedFile(f"{folder / STATE} is not as it was written")
            if facts["run"] != self._run:
                raise DamagedFile(f"{folder} is of run {facts['run']!r}, not of {self._run!r}")
            tensors = {key: value.clone() for key, value in load_file(folder / STATE).items()}
            return _round(facts, tensors), facts["clients"]
        except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
            if isinstance(error, DamagedFile):
                raise
            raise DamagedFile(f"{folder} cannot be read ({error})") from None


def _round(facts: Facts, tensors: State) -> Round:
    """A round so far, as it was saved."""
    weights = tensors.pop(_WEIGHTS, None)
    settled = settled_of(facts["settled"])
    server = {key.removeprefix(_SERVER): value for key, value in tensors.items()}
    return Round(
        round=facts["round"],
        scores=None,
        took_part=facts["took_part"],
        dropped={int(client): why for client, why in facts["dropped"].items()},
        epochs={int(client): epochs for client, epochs in facts["epochs"].items()},
        bytes_up=facts["bytes_up"],
        bytes_down=facts["bytes_down"],
        bytes_eval=0,
        bytes_spared=facts.get("bytes_spared", 0),
        seconds=facts["seconds"],
        weights=weights,
        progress=Progress(facts["round"], server, settled, frozenset(facts["left"]), frozenset(facts["kept"])),
        warnings=facts["warnings"],
    )


def _members(lines: Sequence[Mapping[str, Any]]) -> tuple[Member, ...]:
    return tuple(Member(**{**line, "shape": tuple(line["shape"])}) for line in lines)


def _named(numbered: Mapping[int, T]) -> dict[str, T]:
    return {str(number): value for number, value in numbered.items()}


def _hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
