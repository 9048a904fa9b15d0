"""Using a silo's personal model on new examples, at the silo: columns, scale and labels are those of its training."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import nn

from amity import models
from amity.contract import Split
from amity.errors import InputError
from amity.learn.task import Task
from amity.learn.threads import one_thread
from amity.record.files import replace as put
from amity.resolve import Builds
from amity.site.config import Site, load_site
from amity.site.data import code, coloured
from amity.site.files import read_examples
from amity.site.model_file import WEIGHTS, ModelFacts, read_facts, read_weights
from amity.site.results import outputs_of

Numbers = npt.NDArray[np.float64]


class Predictions(NamedTuple):
    """What a model says about examples, in their order."""

    labels: tuple[str, ...] | None  # the classes; None: quantities
    values: tuple[str, ...] | tuple[float, ...]  # the likeliest class, or the quantity in the silo's own unit
    probabilities: Numbers | None  # [n, classes]


def predict(site: Site | str | Path, run: str, file: str | Path) -> Predictions:
    """What the silo's personal model of a run says about the examples in a file.

    A csv or parquet file needs the columns that the model was trained on, by name and in any order; others are left
    out. An npz file has them as `x`. A folder holds images, or a folder of images per class.
    """
    site = site if isinstance(site, Site) else load_site(site)
    folder = site.run(run)
    if not (folder / WEIGHTS).exists():
        raise InputError(f"silo {site.name} has no model of run {run!r} yet: wait until the run has one")
    facts = read_facts(folder)
    with one_thread():
        task = _task(site, facts)
        x = read_examples(Path(file), facts["features"], pixels=facts["pixels"])
        x = coloured(x, tuple(facts["shape"]))
        if list(x.shape[1:]) != facts["shape"]:
            raise InputError(
                f"{file}: the model of run {run!r} takes examples of shape {facts['shape']}, "
                f"got {list(x.shape[1:])}: bring them to that form"
            )
        examples = task.prepare(Split(x, x.new_zeros(len(x))))
        outputs = outputs_of(task, read_weights(folder / WEIGHTS, task), examples.x).double()
    if facts["labels"] is None:
        zero, unit = facts["scale"]
        return Predictions(None, tuple((outputs[:, 0] * unit + zero).tolist()), None)
    labels = tuple(facts["labels"])
    chosen = tuple(labels[place] for place in outputs.argmax(1).tolist())
    return Predictions(labels, chosen, outputs.softmax(1).numpy(force=True))


def _task(site: Site, facts: ModelFacts) -> Task:
    shape, classes = tuple(facts["shape"]), len(facts["labels"] or ())
    if facts["model"] == "auto" or facts["model"] in models.MODELS:
        return Task(models.make(facts["model"], shape, classes or 1), shape, classes)
    if site.model is None:
        raise InputError(
            f'the model {facts["model"]!r} needs its code: silo.toml has to name it, model = "module:function"'
        )
    make: Builds = code(site, site.model)
    return Task(make if not isinstance(make, nn.Module) else lambda: make, shape, classes)


def write_csv(predictions: Predictions, file: Path) -> None:
    """Write predictions as a table: a row for each example, with the probability of every class."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    named = () if predictions.labels is None else tuple(f"p({label})" for label in predictions.labels)
    rows.writerow(("row", "prediction", *named))
    for row, value in enumerate(predictions.values):
        shares = () if predictions.probabilities is None else predictions.probabilities[row].tolist()
        rows.writerow((row, value, *(f"{share:.6g}" for share in shares)))
    put(file, text.getvalue().encode())
