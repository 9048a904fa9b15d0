"""A silo's personal model on its own disk, with all that is needed to use it later.

model.safetensors    its weights, by the module's own names
model.json           what it was made for: the form of examples, labels, the unit of quantities, run and contract
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file, save_file

from amity.contract import Model
from amity.data.silos import Silos
from amity.errors import DamagedFile
from amity.federation.plan import Plan
from amity.learn.task import Task
from amity.predicting.facts import facts_of
from amity.record.contents import ModelFacts
from amity.record.files import load_json, replacing, to_json
from amity.record.files import replace as put
from amity.record.shapes import are_model_facts
from amity.site.agreement import Agreed
from amity.site.ending import MODEL

WEIGHTS, FACTS = MODEL, "model.json"


def write_model(folder: Path, plan: Plan, agreed: Agreed, silos: Silos, round: int, model: Model) -> None:
    """Write the personal model where the silo's own people find it. The weights come first: facts without are none."""
    contract = agreed.contract
    (silo,) = silos.silos
    options = contract.options
    known = facts_of(silos, silo, plan.task, method=options.method, model=options.model, round=round)
    facts: ModelFacts = {"run": contract.name, "contract": contract.hash(), **known}
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
    facts = load_json(folder / FACTS)
    if not are_model_facts(facts):
        raise DamagedFile(f"{folder / FACTS} is not what a run writes: put a good copy in its place")
    return facts
