"""Using a silo's personal model on new examples, at the silo: columns, scale and labels are those of its training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from amity.contract import Model, Split
from amity.errors import InputError
from amity.learn.task import Task
from amity.learn.threads import one_thread
from amity.predicting.examples import read_examples
from amity.predicting.export import SUFFIXES, Exported, Kind, export_model
from amity.predicting.model import is_own, outputs_of, task_of
from amity.predicting.predictions import Predictions, predictions_of
from amity.record.contents import ModelFacts
from amity.site.config import Site, load_site
from amity.site.data import code
from amity.site.model_file import WEIGHTS, read_facts, read_weights


def predict(site: Site | str | Path, run: str, file: str | Path, keep: Sequence[str] = ()) -> Predictions:
    """Return what the silo's personal model of a run says about the examples in a file.

    A csv or parquet file needs the columns that the model was trained on, by name and in any order; others are left
    out, but those in `keep` stand beside the predictions. An npz file has the examples as `x`. A folder holds images,
    or a folder of images per class.
    """
    used = _personal(site, run)
    with one_thread():
        found = read_examples(Path(file), used.facts, keep)
        examples = used.task.prepare(Split(found.x, found.x.new_zeros(len(found.x))))
        outputs = outputs_of(used.task, used.model, examples.x)
    return predictions_of(used.facts, outputs, found.labels, found.kept, found.notes)


def export(site: Site | str | Path, run: str, to: Kind, out: str | Path | None = None) -> Exported:
    """Write the silo's personal model of a run for others; without `out`, under the run's name in this folder."""
    if to == "card":
        raise InputError("a silo's own page about its model is report.md, which `amity federation verdict` writes")
    used = _personal(site, run)
    place = Path(run + SUFFIXES[to]) if out is None else Path(out)
    with one_thread():
        return export_model(used.facts, used.task, used.model, to, place, used.folder)


class _Personal(NamedTuple):
    facts: ModelFacts
    task: Task
    model: Model
    folder: Path


def _personal(site: Site | str | Path, run: str) -> _Personal:
    """Return the silo's personal model of a run, with all that is known of it."""
    site = site if isinstance(site, Site) else load_site(site)
    folder = site.run(run)
    if not (folder / WEIGHTS).exists():
        raise InputError(f"silo {site.name} has no model of run {run!r} yet: wait until the run has one")
    facts = read_facts(folder)
    with one_thread():
        task = _task(site, facts)
        return _Personal(facts, task, read_weights(folder / WEIGHTS, task), folder)


def _task(site: Site, facts: ModelFacts) -> Task:
    own = None if site.model is None or not is_own(facts) else code(site, site.model)
    return task_of(facts, own, 'silo.toml has to name it, model = "module:function"')
