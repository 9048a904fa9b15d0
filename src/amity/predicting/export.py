"""A personal model as a file for others.

    safetensors   the weights by the module's own names, with the facts: for code that has the module
    torch         a whole program (`torch.export`, .pt2): runs where torch is, without Amity or the module's code
    onnx          a whole program for any runtime, tried with onnxruntime before it is left on disk
    card          the model card, with all that is known by now

A program gives probabilities, or the quantity in its own unit. It takes examples as the model does, any number at once.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from safetensors.torch import save_file
from torch import nn

from amity.contract import Model
from amity.errors import InputError
from amity.learn.task import Task
from amity.predicting.card import card_of, verdicts_of
from amity.predicting.neighbours import references
from amity.predicting.onnx import export_onnx
from amity.predicting.program import COUNTS, check_equal, inputs_like, program_of, quiet_torch
from amity.predicting.target import writing
from amity.record import file_names
from amity.record.checkpoint import apart
from amity.record.contents import ModelFacts
from amity.record.files import replace, replacing
from amity.result import Result

Kind = Literal["safetensors", "torch", "onnx", "card"]
SUFFIXES: dict[Kind, str] = {"safetensors": ".safetensors", "torch": ".pt2", "onnx": ".onnx", "card": ".md"}
EXTRA = "amity.json"  # the file inside a .pt2 that says what the model takes and gives


class Exported(NamedTuple):
    """A model that was written."""

    path: Path
    words: str  # what is in it, and what was checked


def kind_of(word: str) -> Kind:
    """Return the kind of file that a word names."""
    for kind in get_args(Kind):
        if kind == word:
            return kind  # type: ignore[no-any-return]
    raise InputError(f"--to must be one of {', '.join(get_args(Kind))}, got {word!r}: choose one")


def export(result: Result, silo: str, to: Kind, out: Path | None = None) -> Exported:
    """Write a silo's personal model of a run; without `out`, under the silo's name in the current folder."""
    held = result.held(silo)
    place = out if out is not None else Path(file_names(result.record.silos)[silo] + SUFFIXES[to])
    if to != "card":
        return export_model(held.facts(silo), held.task(silo), held.model(silo), to, place, result.record.path)
    _check(place, to)
    beside = references(result.record)
    with writing(place):
        replace(place, card_of(result.record, silo, beside, verdicts_of(result.record, beside)).encode())
    return Exported(place, "what the model is, how good it is and what it is not for")


def export_model(facts: ModelFacts, task: Task, model: Model, to: Kind, place: Path, source: Path) -> Exported:
    """Write a model. `source`: the folder that it comes from, in which nothing is overwritten."""
    _check(place, to)
    if source.resolve() in place.resolve().parents:
        raise InputError(f"--out must not lie in the run's own directory, got {place}: give another --out")
    notes = json.dumps(shared(facts), ensure_ascii=False)
    if to == "safetensors":
        with writing(place), replacing(place) as temporary:
            save_file(apart(task.export_state(model)), temporary, metadata={"format": "pt", "amity": notes})
        return Exported(place, "the weights, by the module's own names; its metadata say what they take")
    program = program_of(facts, task, model)
    with writing(place):
        said = (export_onnx if to == "onnx" else _export_torch)(facts, program, notes, place)
    return Exported(place, said)


def shared(facts: ModelFacts) -> dict[str, object]:
    """Return what a file for others says about the model: nothing about single training examples."""
    return {key: value for key, value in facts.items() if key != "seen"}


def _check(place: Path, to: Kind) -> None:
    ending = SUFFIXES[to]
    if place.suffix.lower() != ending:
        raise InputError(f"--out must end in {ending} for --to {to}, got {place}: name it {place.stem}{ending}")


def _export_torch(facts: ModelFacts, program: nn.Module, notes: str, out: Path) -> str:
    """Write a program for `torch.export.load`, tried as it was written."""
    batch, buffer = ({0: torch.export.Dim("n")},), io.BytesIO()
    with quiet_torch():
        try:
            exported = torch.export.export(program, (inputs_like(facts, 2),), dynamic_shapes=batch)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"torch cannot export this model ({reason[:200]}): export --to safetensors") from error
        torch.export.save(exported, buffer, extra_files={EXTRA: notes})
        again = torch.export.load(io.BytesIO(buffer.getvalue())).module()
    with torch.no_grad():
        pairs = [(again(x), program(x)) for x in (inputs_like(facts, count) for count in COUNTS)]
    far = max(check_equal(said, ours, str(out)) for said, ours in pairs)
    replace(out, buffer.getvalue())
    return f"a program for torch.export.load, which says the same to {far:.1g}"
