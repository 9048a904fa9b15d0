"""A silo of a simulation in a process of its own: `python -m amity.silo_process FOLDER`, which is given a folder and
messages alone. There is no contract and nobody to approve one: between organisations it is `amity.site.worker`.

    FOLDER/silo.json          its name, what its labels are, the unit of quantities
    FOLDER/data.safetensors   its examples
    FOLDER/state/             what it has learnt: see federation/stored_silo.py
    FOLDER/model.safetensors  its personal model, when it was told to keep one

Messages come in on standard input, answers go out on standard output (`site/frames.py`). The plan is resolved here,
from the run and the roster, by the same function as at the server.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from amity.config.run import Run
from amity.contract import InputError, Scale, Silo, Split
from amity.data.silos import Silos
from amity.engines.memory import answered
from amity.federation.messages import Answer, Describe, Described, Failed, Keep, Message, Propose, Standing, failure
from amity.federation.plan import Member, layout_of
from amity.federation.stored_silo import StoredSilo
from amity.prepare import ready, roster_of
from amity.record.files import replacing
from amity.resolve import method_of, resolve
from amity.site.frames import serve

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


class SiloProcess:
    """What answers messages in a silo's process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._raw = load_silo(folder)
        self._side: StoredSilo | None = None

    def answer(self, message: Message) -> Answer:
        """Do what a message asks for."""
        if not NAME.fullmatch(message.run):
            raise InputError(f"a run's name is letters, digits, - and _, got {message.run!r}: it becomes a folder")
        match message:
            case Describe():
                run, _ = _read(message.document)
                return Described(*message[:3], json.dumps(self._member(run)._asdict()))
            case Propose():
                return self._agree(message)
        if self._side is None:
            raise InputError("a silo needs to know the plan before anything else: propose it first")
        answer = self._side.safely(message)
        if isinstance(message, Keep) and not isinstance(answer, Failed):
            self._write_model()
        return answer

    def safely(self, message: Message) -> Answer:
        """The answer, and a message about it where something goes wrong."""
        try:
            return self.answer(message)
        except Exception as error:
            return failure(message, error)

    def _member(self, run: Run) -> Member:
        (member,) = roster_of(self._ready(run))
        return member

    def _ready(self, run: Run) -> Silos:
        name, method = method_of(run)
        return ready(self._raw, run, name, method)

    def _agree(self, message: Propose) -> Standing:
        """Come to the plan, from the run and the roster."""
        run, roster = _read(message.document)
        (own,) = self._ready(run).silos
        if message.silo >= len(roster) or roster[message.silo] != self._member(run):
            raise InputError(f"line {message.silo} of the roster is not what silo {own.name} has said of itself")
        plan = resolve(run, roster).plan._replace(run=message.run)
        if self._side is not None:
            self._side.close()
        self._side = StoredSilo(plan, message.silo, own, self._folder / "state" / message.run)
        pending = None if self._side.pending is None else self._side.pending.round
        return Standing(message.run, self._side.committed, message.silo, pending, layout_of(plan))

    def _write_model(self) -> None:
        """Write the silo's personal model where its own people find it."""
        assert self._side is not None
        model = self._side.plan.task.export_state(self._side.delivered())
        with replacing(self._folder / "model.safetensors") as temporary:
            save_file({key: value.contiguous().clone() for key, value in model.items()}, temporary)


def _read(document: str) -> tuple[Run, list[Member]]:
    """The run that a document describes, and its roster, where it has one."""
    try:
        content = json.loads(document)
        table = dict(content["run"])
        run = Run(**{key: value for key, value in table.items() if key != "set"}, settings=table["set"])
        lines = content.get("roster", [])
        roster = [Member(**{**line, "shape": tuple(line["shape"])}) for line in lines]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the document of a run cannot be read ({error}): look at who sends it") from None
    if run.init_from != "none":
        raise InputError("a run between silos names no file, got init_from: its path would be looked for here")
    return run, roster


def save_silo(folder: Path, silo: Silo, classes: int) -> None:
    """Lay a silo's data into a folder, for a process of its own."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    splits = {"train": silo.train, "test": silo.test, "val": silo.val}
    tensors = {f"{part}/{axis}": getattr(s, axis) for part, s in splits.items() if s is not None for axis in ("x", "y")}
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, folder / "data.safetensors")
    facts = {"name": silo.name, "classes": classes, "group": silo.group, "scale": list(silo.scale)}
    (folder / "silo.json").write_text(json.dumps(facts))


def load_silo(folder: Path) -> Silos:
    """The data in a silo's folder: a federation of one."""
    try:
        facts = json.loads((folder / "silo.json").read_bytes())
        tensors = {key: value.clone() for key, value in load_file(folder / "data.safetensors").items()}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder} holds no silo ({error}): give the folder of one") from None
    parts = {name: Split(tensors[f"{name}/x"], tensors[f"{name}/y"]) for name in ("train", "test")}
    val = Split(tensors["val/x"], tensors["val/y"]) if "val/x" in tensors else None
    silo = Silo(facts["name"], parts["train"], parts["test"], val, facts["group"], Scale(*facts["scale"]))
    return Silos((silo,), facts["classes"], data=str(facts["name"]), setting="natural")


def main() -> None:
    """Serve the silo whose folder the command line names."""
    torch.set_num_threads(1)  # or sums would be taken in another order than in a simulation
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever else is printed does not belong among the answers
    serve(partial(answered, SiloProcess(Path(sys.argv[1]))), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
