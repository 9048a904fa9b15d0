"""A silo's personal model on its own disk, with all that is needed to use it later.

model.safetensors    its weights, by the module's own names
model.json           what it was made for: the form of examples, labels, the unit of quantities, run and contract
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from safetensors.torch import load_file, save_file

from amity.contract import Model
from amity.data.silos import Silos
from amity.federation.plan import Plan
from amity.learn.task import Task
from amity.record.files import load_json, replacing, to_json
from amity.record.files import replace as put
from amity.site.agreement import Agreed
from amity.site.ending import MODEL

WEIGHTS, FACTS = MODEL, "model.json"


class ModelFacts(TypedDict):
    """What `model.json` holds."""

    run: str
    silo: str
    contract: str  # its hash
    method: str
    model: str  # a name that Amity knows, or one of the consortium's own
    round: int  # after which it is the personal model
    shape: list[int]  # of one example
    labels: list[str] | None  # in the order of the outputs; None: quantities
    features: list[str] | None  # in the order in which the model takes them
    pixels: bool  # whether whole numbers 0 to 255 are pixels, which a model takes scaled to -1 to 1
    scale: list[float]  # zero and unit of quantities: what the model gives, times unit, plus zero


def write_model(
    folder: Path, plan: Plan, agreed: Agreed, silos: Silos, round: int, model: Model, *, pixels: bool
) -> None:
    """Write the personal model where the silo's own people find it. The weights come first: facts without are none."""
    contract = agreed.contract
    (silo,) = silos.silos
    facts = ModelFacts(
        run=contract.name,
        silo=silo.name,
        contract=contract.hash(),
        method=contract.options.method,
        model=contract.options.model,
        round=round,
        shape=list(contract.data.shape),
        labels=None if contract.data.labels is None else list(contract.data.labels),
        features=list(silos.features) or None,
        pixels=pixels,
        scale=list(silo.scale),
    )
    write_weights(folder / WEIGHTS, plan.task, model)
    put(folder / FACTS, to_json(facts, indent=1))


def write_weights(file: Path, task: Task, model: Model) -> None:
    """Write a model's weights, by the module's own names."""
    weights = {key: value.contiguous().clone() for key, value in task.export_state(model).items()}
    with replacing(file) as temporary:
        save_file(weights, temporary)


def read_weights(file: Path, task: Task) -> Model:
    """The model whose weights a file holds."""
    return task.import_state({key: value.clone() for key, value in load_file(file).items()})


def read_facts(folder: Path) -> ModelFacts:
    """What is known of the model in a folder."""
    facts: ModelFacts = load_json(folder / FACTS)
    return facts
