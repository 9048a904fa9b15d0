"""The names and options in an experiment's file, checked: every one of them is known, and every run can be built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from amity.config.options import fields_of, unknown
from amity.config.run import Run
from amity.errors import InputError
from amity.papers.spec.experiment import Claim, Experiment
from amity.papers.spec.shape import option_tables
from amity.papers.spec.vocabulary import (
    BEST_OF,
    DISPLAY_KEYS,
    HALVES,
    KINDS,
    OPTIONS,
    OUTPUT_KEYS,
    REPEAT_KEYS,
    SIZES,
    Axis,
    Measure,
)


def check_content(experiment: Experiment) -> None:
    """Refuse an experiment with an unknown name or option, or with a run that cannot be built."""
    content, name = experiment.content, experiment.name
    for key in ("id", "title", "paper", "sizes"):
        if key not in content:
            raise InputError(f"the experiment {name} needs {key}: add it to its file")
    _check_names(content, name)
    _check_options(content, name)
    for output in experiment.outputs:
        _check_known(f"kind of output in {name}:", [output.kind], KINDS)
        known = OPTIONS.get(output.kind, ())
        _check_known(f"key of the output {output.name} in {name}:", output.options, known, *OUTPUT_KEYS)
    for table in content.get("claims", []):
        _check_known(f"key of a claim in {name}:", table, Claim.__dataclass_fields__)
        _check_known(f"measure of a claim in {name}:", [table.get("measure", "accuracy")], get_args(Measure))
    for table in content.get("columns", {}).values():
        _check_known(f"half of a column in {name}:", [table.get("half", HALVES[0])], HALVES)
    for row, values in content.get("paper_values", {}).items():
        for column in values:
            if row not in content.get("rows", {}) or column not in content.get("columns", {}):
                raise InputError(f"{name} has a paper value for {row} in {column}, which it does not run: remove it")
    _check_best_of(experiment)
    _build_all_runs(experiment)


def _check_best_of(experiment: Experiment) -> None:
    """Refuse a row that is to be the best of others where nothing is chosen among these."""
    for row in experiment.content.get("rows", {}):
        for other in experiment.best_of(row):
            for size in experiment.sizes:
                for column in experiment.columns(size):
                    if experiment.best_of(other) or experiment.cell(size, other, column).choice is None:
                        raise InputError(
                            f"{experiment.name} takes the best of rows that choose a value, got {other} in rows.{row}: "
                            f"give {other} a choose, or leave it out"
                        )


def _check_options(content: Mapping[str, Any], name: str) -> None:
    """Refuse an option that no run has."""
    # A label is what tables call a row.
    options = [key for key in fields_of(Run) if key not in ("seed", *DISPLAY_KEYS)]
    for where, table, more in option_tables(content):
        if "seed" in (*table, *table.get("choose", {})):
            raise InputError(f"{name} runs the seeds 0, 1, ..., got seed in {where}: say how many, seeds = 3")
        _check_known(f"option in {name}, {where}:", table, [*options, *REPEAT_KEYS, *more])
        _check_known(f"option to choose in {name}, {where}:", table.get("choose", {}), options, "set")


def _build_all_runs(experiment: Experiment) -> None:
    """Build every run of every size: a run refuses values that it cannot have."""
    for size in experiment.sizes:
        for column in experiment.columns(size):
            experiment.run_for_data(size, column)
        for cell in experiment.cells(size):
            for seed in range(cell.seeds):
                first = cell.choice.values[0] if cell.choice else None
                cell.run(seed, first)
            cell.trials()


def _check_names(content: Mapping[str, Any], name: str) -> None:
    """Refuse a row or column that is named somewhere and described nowhere."""

    def check(axis: Axis, entries: Iterable[str], where: str = name) -> None:
        check_entries(name, axis, entries, content.get(axis, {}), where)

    check("rows", content.get("only_rows", []))
    check("columns", content.get("only_columns", []))
    check("rows", content.get("cells", {}), f"cells in {name}")
    for row in content.get("cells", {}).values():
        check("columns", row, f"cells in {name}")
    for table in content.get("rows", {}).values():
        check("rows", table.get(BEST_OF, []), f"{BEST_OF} in {name}")
    for size, table in content["sizes"].items():
        _check_known(f"size of {name}:", [size], SIZES)
        where = f"{name}, size {size}"
        check("rows", table.get("rows", []), where)
        check("columns", table.get("columns", []), where)
        check("rows", table.get("of", {}), where)
        check("columns", table.get("in", {}), where)
        for row in table.get("of", {}).values():
            check("columns", row.get("in", {}), where)
    for table in content.get("outputs", []):
        against = [table[end] for end in ("against", "ceiling", "oracle") if end in table]
        check("rows", [*table.get("rows", []), *against, *table.get("without", [])], f"an output in {name}")
        check("columns", table.get("columns", []), f"an output in {name}")
    for table in content.get("claims", []):
        check("rows", [*table["above"], *table["below"]], f"a claim in {name}")
        than = [table["than"]] if "than" in table else []
        check("columns", [*table.get("columns", []), *than], f"a claim in {name}")


def check_entries(name: str, axis: Axis, entries: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse a row or column that an experiment does not have."""
    for entry in entries:
        if not known:
            raise InputError(f"{name} has no {axis}, got {entry!r}: leave {axis} out")
        _check_known(f"{axis[:-1]} of {where}:", [entry], known)


def _check_known(what: str, words: Iterable[str], known: Iterable[str], *also: str) -> None:
    """Refuse a word that is neither `known` nor one of `also`, which the complaint does not list."""
    for word in words:
        if word not in (*known, *also):
            raise unknown(what, word, known)
