"""A silo that survives: its state lies in a folder of its own, so that a process that was killed goes on where it was.

Every turn is written before it is answered, and so is every verdict before it is confirmed: write aside, fsync, rename.
What was there before the last turn is kept until the next one is saved, since a server may come back from an older
checkpoint. The same question asked again gets the stored answer: no round is trained twice.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, NotRequired, TypedDict

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from amity.contract import Silo, State
from amity.errors import DamagedFile, InputError
from amity.federation.encoding import apart, digest
from amity.federation.messages import Answer, Message, Train, Upload, Verdict
from amity.federation.plan import Plan
from amity.federation.safe_files import checked_json, read_checked_json, swap, sync
from amity.federation.secrets import Secret
from amity.federation.silo import Kept, Pending, SiloSide

NEW, CURRENT, OLD = "new", "current", "old"
FACTS = "standing.json"

_log = logging.getLogger("amity.silo")


class Facts(TypedDict):
    """What `standing.json` holds: where the silo stands, and a hash of each file beside it."""

    run: str
    committed: int
    turn: int | None  # the round of the last turn
    before: int | None  # the round that was committed before it
    question: str | None  # a hash of the download that it answers
    settled: bool  # whether it is known what became of its upload
    kept: int | None
    files: dict[str, str]
    spent: NotRequired[int]  # noisy gradients, under differential privacy


class LastTurn(NamedTuple):
    """The last turn, with all that is needed to answer it again or to take it back."""

    round: int
    base: int  # the round that was committed before it
    before: State
    after: State
    upload: State
    question: str
    settled: bool


class Written(NamedTuple):
    """A file of the current folder, and what is in it."""

    state: State
    digest: str


class StoredSilo(SiloSide):
    """A silo whose state lies in a folder. One process at a time may hold it."""

    def __init__(self, plan: Plan, client: int, silo: Silo, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._lock = _locked(folder / "lock")
        super().__init__(plan, client, silo, secret=Secret.kept_in(folder / "secret"))
        self.last: LastTurn | None = None
        self._written: dict[str, Written] = {}  # by this process
        self._load()

    def close(self) -> None:
        """Let another process hold the folder."""
        self._lock.close()

    def answer(self, message: Message) -> Answer:
        """Do what a message asks for, and save what came of it before it is answered."""
        if isinstance(message, Train):
            return self._train(message)
        before = self._standing()
        answer = super().answer(message)
        if any(now is not was for now, was in zip(self._standing(), before, strict=True)):
            self._save()
        return answer

    def _standing(self) -> tuple[object, ...]:
        """All that is saved, to be compared by identity: tensors have no single answer to whether they are equal."""
        return self.committed, self.pending, self.kept, self.state, self.last

    def _train(self, message: Train) -> Answer:
        """Take a turn, or give the stored answer to a question that was asked before."""
        question = digest(message)
        last = self.last
        if last is not None and not last.settled and last.round == message.round:
            if last.question == question:
                _log.info("run %s, %s: round %d is answered as before", message.run, self._folder.name, message.round)
                return Upload(*message[:3], last.upload)
            self.pending = None  # the server has forgotten what it asked, and asks something else
        if self.pending is not None and self.pending.round != message.round:
            raise InputError(
                f"silo {self.name} does not know what became of its upload of round {self.pending.round}, "
                f"got round {message.round}: say it first"
            )
        before, base = self.state, self.committed
        answer = super().answer(message)
        assert isinstance(answer, Upload) and self.pending is not None
        self.last = LastTurn(message.round, base, before, self.pending.after, answer.values, question, settled=False)
        self._save()
        _log.info("run %s, %s: round %d is trained and saved", message.run, self._folder.name, message.round)
        return answer

    def commit(self, round: int, verdict: Verdict) -> None:
        if self.pending is None and self.committed == round:
            return  # told before
        super().commit(round, verdict)
        if self.last is not None:
            self.last = self.last._replace(settled=True)

    def settle(self, round: int, asked: int, verdict: Verdict | None) -> None:
        """Agree with a server that comes back, also from the checkpoint before its last."""
        if self.pending is not None and self.committed > round:
            self._take_back()
        last = self.last
        if last is not None and self.committed == last.round > round and last.base <= round:
            self.state, self.committed = last.before, last.base
            self.pending = Pending(last.round, last.after)
            self.last = last._replace(settled=False)
            self._scored = None
            return
        if self.pending is not None and self.pending.round > round:
            return  # the question will come again, and its answer is here
        super().settle(round, asked, verdict)
        if self.pending is None and self.last is not None and not self.last.settled:
            self.last = self.last._replace(settled=True)  # or it would be pending again when it is read from disk

    def _save(self) -> None:
        """Write aside, make sure that it is on disk, and put it in place of what was there."""
        new = self._folder / NEW
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        tensors = {"state": self.state}
        if self.last is not None:
            tensors |= {"before": self.last.before, "after": self.last.after, "upload": self.last.upload}
        if self.kept is not None:
            tensors["kept"] = self.kept.state
            if self.kept.down is not None:
                tensors["kept-down"] = self.kept.down
        written = {name: self._file(new / f"{name}.safetensors", state) for name, state in tensors.items()}
        facts = Facts(
            run=self.plan.run,
            committed=self.committed,
            turn=None if self.last is None else self.last.round,
            before=None if self.last is None else self.last.base,
            question=None if self.last is None else self.last.question,
            settled=self.last is None or self.last.settled,
            kept=None if self.kept is None else self.kept.round,
            files={f"{name}.safetensors": file.digest for name, file in written.items()},
        )
        if self.plan.privacy is not None:
            facts["spent"] = self.spent
        (new / FACTS).write_bytes(checked_json(facts))
        sync(new / FACTS)
        swap(new, self._folder / CURRENT, self._folder / OLD)
        self._written = written

    def _file(self, file: Path, state: State) -> Written:
        """Put tensors into a file. What the current folder has already is the same file under another name."""
        known = self._written.get(file.stem)
        if known is not None and known.state is state:
            with suppress(OSError):  # not every disk can do that
                os.link(self._folder / CURRENT / file.name, file)
                return known
        content = save(apart({key: value.detach().cpu().contiguous() for key, value in state.items()}))
        file.write_bytes(content)
        sync(file)
        return Written(state, hashlib.sha256(content).hexdigest())

    def _take_back(self) -> None:
        """Go back to before the last turn: the server has lost the round before it, too."""
        with suppress(DamagedFile):  # and what is in memory stays
            if _facts(self._folder / OLD)["committed"] == self.committed:
                self._read(self._folder / OLD)

    def _load(self) -> None:
        """Go on from what is on disk; from what was there before, where a crash came between two names."""
        current, old = self._folder / CURRENT, self._folder / OLD
        if not current.exists():
            if not old.exists():
                return
            old.rename(current)
        self._read(current)

    def _read(self, current: Path) -> None:
        facts = _facts(current)
        if facts["run"] != self.plan.run:
            raise InputError(
                f"{self._folder} holds the state of run {facts['run']!r}, got {self.plan.run!r}: give another folder"
            )
        found = {name.removesuffix(".safetensors"): _tensors(current / name) for name in facts["files"]}
        self.begin(found["state"], facts["committed"])
        self.count_spent(facts.get("spent", 0))
        if facts["turn"] is not None:
            parts = found["before"], found["after"], found["upload"]
            self.last = LastTurn(facts["turn"], facts["before"] or 0, *parts, facts["question"] or "", facts["settled"])
            if not facts["settled"]:
                self.pending = Pending(self.last.round, self.last.after)
        if facts["kept"] is not None:
            self.kept = Kept(facts["kept"], found["kept"], found.get("kept-down"))


def _facts(folder: Path) -> Facts:
    """What is written of a state, seen to be whole."""
    try:
        facts: Facts = read_checked_json(folder / FACTS)
        for name, digest in facts["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                raise DamagedFile(f"{folder / name} is not as it was written: bring back a copy of {folder.parent}")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{folder / FACTS} cannot be read ({error}): bring back a copy of {folder.parent}") from None
    return facts


def _tensors(file: Path) -> State:
    try:
        # Clones: a memory-mapped tensor may be aligned otherwise, and sums of it then differ in the last bit.
        return {key: value.clone() for key, value in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise DamagedFile(f"{file} cannot be read ({error}): bring back a copy of its folder") from None


def _locked(file: Path) -> IO[bytes]:
    """A lock that goes with the process, however it ends; an orphan may still be at work."""
    handle = file.open("ab")
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise InputError(f"another process holds {file.parent}: wait for it, or end it") from None
    return handle
