"""An experiment with some of its rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from amity.errors import InputError
from amity.papers.spec.checks import check_entries
from amity.papers.spec.experiment import Experiment
from amity.papers.spec.vocabulary import Axis


def only(experiment: Experiment, rows: Sequence[str], columns: Sequence[str], *, size: str | None = None) -> Experiment:
    """Return the same experiment with some of its rows and columns; a size that is named must run each of them."""
    content, name = dict(experiment.content), experiment.name
    axes: tuple[tuple[Axis, Sequence[str]], ...] = (("rows", rows), ("columns", columns))
    for axis, wanted in axes:
        check_entries(name, axis, wanted, content.get(f"only_{axis}", content.get(axis, {})), name)
        if size is not None:
            _check_size_runs(experiment, size, axis, wanted)
        if wanted:
            sizes = {
                key: {**table, axis: [entry for entry in table.get(axis, content[axis]) if entry in wanted]}
                for key, table in content["sizes"].items()
            }
            content = {**content, "sizes": sizes}
    return replace(experiment, content=content)


def _check_size_runs(experiment: Experiment, size: str, axis: Axis, wanted: Iterable[str]) -> None:
    """Refuse a row or column that a size does not run."""
    run = experiment.rows(size) if axis == "rows" else experiment.columns(size)
    for entry in wanted:
        if entry not in run:
            rule = f"size {size} of {experiment.name} does not run {entry}"
            raise InputError(f"{rule}, it runs {', '.join(run) or 'nothing'}: choose among these or another size")
