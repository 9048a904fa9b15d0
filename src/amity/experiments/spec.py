"""An experiment of a paper, as its TOML file describes it.

    id = "X3"                          title, paper, expect: for readers
    [run]                              options of every run, and of its method under `set`
    [columns.mnist]                    options of a column of the table (data sets, settings)
    [rows.fedamp]                      options of a row (methods); `method` is the row's name unless given
    [cells.fedamp.mnist]               options of one row in one column
    [paper_values]                     fedamp = { mnist = 97.59 }: what the paper reports
    [sizes.cpu]                        options of a size; `rows` and `columns` choose some of them, `seeds` repeats,
                                       [sizes.cpu.in.mnist] and [sizes.cpu.of.fedamp] are for one column or row
    [[outputs]]                        kind = "table", "curves", ...: what is made of the results
    [[claims]]                         text, above, below: rows that the paper says are better than others

Later tables win: run, column, row, cell, size, size in a column, size of a row, size of a row in a column. `like`
names an experiment whose tables are taken over, so that two views of the same runs share them; one's own `paper_values`
replace all others, and `only_rows` and `only_columns` leave the others out of every size. No torch here.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from amity.config import Run
from amity.errors import InputError
from amity.options import fields_of, unknown

SIZES = ("quick", "cpu", "paper")
KINDS = {
    "table": "best mean test accuracy, ours beside the paper's",
    "worth": "who gains by joining, silo by silo",
    "wilcoxon": "p-values between all pairs of rows, over silos",
    "cost": "time, memory and traffic",
    "curves": "accuracy or loss against the round",
    "distribution": "how the silos' accuracies are distributed",
    "heatmap": "who learns from whom in the last round",
    "sweep": "accuracy against the value of an option",
    "trajectories": "how the weights of the others change over the rounds",
    "clients": "each silo's accuracy against the round",
    "schedulers": "how APPLE's penalty fades",
    "division": "who holds what",
    "gains": "what each silo gains over training alone",
}
"""What can be made of the results."""

_TOP = (
    *("id", "title", "paper", "expect", "like", "only_rows", "only_columns"),
    *("run", "columns", "rows", "cells", "paper_values", "sizes", "outputs", "claims"),
)
_SHOWN = ("label", "value", "series")
_MEANT = ("set", "seeds", "choose", "choose_rounds", *_SHOWN)
_FREE = ("workers", "engine", "ray_address", "matrix_dir", "device", "checkpoint_every")
"""Options that do not change what comes out."""
VALIDATION = 0.15
"""The share of the training data on which a rate is chosen."""


class Choice(NamedTuple):
    """An option whose value is chosen on validation data, in short runs of their own."""

    option: str  # of the run, or of its method: "set.alpha"
    values: tuple[Any, ...]
    rounds: int


@dataclass(frozen=True)
class Cell:
    """One row in one column: the runs, one per seed."""

    row: str
    column: str
    options: Mapping[str, Any]
    seeds: int = 1
    choice: Choice | None = None

    def run(self, seed: int, chosen: Any = None) -> Run:
        """The run of a seed; where an option is chosen on validation data, with the value that was."""
        options = dict(self.options)
        if self.choice is not None:
            options = _with(options, self.choice.option, chosen)
        return _run(options, seed)

    def trials(self) -> list[tuple[Any, Run]]:
        """The short runs that choose a value, all with the first seed."""
        if self.choice is None:
            return []
        base = {**self.options, "rounds": self.choice.rounds, "val_fraction": VALIDATION}
        return [(value, _run(_with(base, self.choice.option, value), 0)) for value in self.choice.values]


def _with(options: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    outer, dot, inner = key.partition(".")
    if not dot:
        return {**options, key: value}
    return {**options, outer: {**options.get(outer, {}), inner: value}}


def _run(options: Mapping[str, Any], seed: int) -> Run:
    plain = {key: value for key, value in options.items() if key not in _MEANT}
    return Run(**{**plain, "seed": seed, "settings": dict(options.get("set", {}))})


def asked(run: Run) -> dict[str, Any]:
    """The options in which a run differs from a run without any, as far as they change what comes out."""
    defaults = {name: field.default for name, field in fields_of(Run).items()}
    table = run.table()
    given = {key: table[key] for key in defaults if key not in _FREE and table[key] != defaults[key]}
    return {"method": run.method, **given, **({"set": table["set"]} if table["set"] else {})}


def key_of(run: Run) -> str:
    """A run's name on disk: readable, and different for every run that could come out differently."""
    text = json.dumps(asked(run), sort_keys=True)
    setting = run.setting.partition(":")[0]
    words = (run.data.partition(":")[0], setting, run.method)
    return f"{'-'.join(words)}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


@dataclass(frozen=True)
class Output:
    """Something to make of the results."""

    kind: str
    name: str  # of the files
    rows: tuple[str, ...] = ()  # all where none is named
    columns: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # what this kind understands besides


@dataclass(frozen=True)
class Claim:
    """What a paper says of the order of its methods."""

    text: str
    above: tuple[str, ...]  # rows that are better
    below: tuple[str, ...]  # than each of these
    columns: tuple[str, ...] = ()  # all where none is named
    within: float = 0.0  # better, or worse by less than this many points


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper."""

    name: str  # paper/what, as `amity reproduce` takes it
    content: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.content["id"])

    @property
    def title(self) -> str:
        return str(self.content["title"])

    @property
    def paper(self) -> str:
        return str(self.content["paper"])

    @property
    def ours(self) -> bool:
        """Whether no paper has it."""
        return self.paper == "ours"

    @property
    def expect(self) -> str:
        return str(self.content.get("expect", ""))

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(
            Claim(
                str(table["text"]),
                tuple(table["above"]),
                tuple(table["below"]),
                tuple(table.get("columns", ())),
                float(table.get("within", 0.0)),
            )
            for table in self.content.get("claims", [])
        )

    def label(self, table: str, name: str) -> str:
        """How a row or column is called in tables and figures."""
        return str(self.content[table][name].get("label", name))

    def run_label(self, row: str, column: str) -> str:
        """How what stands in one cell is called in a sentence."""
        return f"{self.label('rows', row)} on {self.label('columns', column)}"

    def value(self, table: str, name: str) -> Any:
        """The option's value that a row or column of a sweep stands for."""
        return self.content[table][name].get("value", name)

    def reported(self, row: str, column: str) -> float | str | None:
        """What the paper reports for a cell."""
        value = self.content.get("paper_values", {}).get(row, {}).get(column)
        return value if value is None or isinstance(value, str) else float(value)

    def size(self, name: str) -> Mapping[str, Any]:
        if name not in self.content["sizes"]:
            raise unknown(f"size of {self.name}:", name, list(self.content["sizes"]))
        table: Mapping[str, Any] = self.content["sizes"][name]
        return table

    def note(self, size: str) -> str:
        """What was scaled down, and whatever else a reader must know of a size."""
        return str(self.size(size).get("note", ""))

    def rows(self, size: str) -> list[str]:
        return self._entries("rows", size)

    def columns(self, size: str) -> list[str]:
        return self._entries("columns", size)

    def _entries(self, axis: str, size: str) -> list[str]:
        """What a size runs, in its order."""
        named = self.size(size).get(axis, self.content.get(axis, {}))
        wanted = self.content.get(f"only_{axis}", named)
        return [entry for entry in named if entry in wanted]

    def cells(self, size: str) -> list[Cell]:
        """Every run there is to do, column by column: the same data are dealt once."""
        return [self.cell(size, row, column) for column in self.columns(size) for row in self.rows(size)]

    def dealt(self, size: str, column: str) -> Run:
        """How a column's data are dealt, whatever is run on them: an experiment may have no rows."""
        scale = self.size(size)
        options = _joined(self.content.get("run", {}), self.content["columns"][column], *_scaled(scale, column))
        return _run(options, 0)

    def cell(self, size: str, row: str, column: str) -> Cell:
        content, scale = self.content, self.size(size)
        of_row = scale.get("of", {}).get(row, {})
        options = _joined(
            {"method": row},
            content.get("run", {}),
            content["columns"][column],
            content["rows"][row],
            content.get("cells", {}).get(row, {}).get(column, {}),
            *_scaled(scale, column),
            {key: value for key, value in of_row.items() if key != "in"},
            of_row.get("in", {}).get(column, {}),
        )
        return Cell(row, column, options, int(options.get("seeds", 1)), _choice(options))

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        stem = self.name.rpartition("/")[2]
        made = []
        for table in self.content.get("outputs", [{"kind": "table"}]):
            known = ("kind", "name", "rows", "columns")
            extra = {key: value for key, value in table.items() if key not in known}
            name = table.get("name", stem if table["kind"] == "table" else f"{stem}-{table['kind']}")
            made.append(
                Output(table["kind"], name, tuple(table.get("rows", ())), tuple(table.get("columns", ())), extra)
            )
        return tuple(made)


def _scaled(size: Mapping[str, Any], column: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A size's options for all rows of a column."""
    own = {key: value for key, value in size.items() if key not in ("rows", "columns", "note", "in", "of")}
    return own, size.get("in", {}).get(column, {})


def _joined(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Later tables win; a method's own options add up."""
    options: dict[str, Any] = {}
    for table in tables:
        inner = {**options.get("set", {}), **table.get("set", {})}
        options = {**options, **table, "set": inner}
    return options


def _choice(options: Mapping[str, Any]) -> Choice | None:
    wanted = options.get("choose", {})
    if not wanted:
        return None
    flat = {key: values for key, values in wanted.items() if key != "set"}
    flat |= {f"set.{key}": values for key, values in wanted.get("set", {}).items()}
    if len(flat) != 1:
        raise InputError(f"choose takes one option, got {', '.join(flat)}: choose one of them")
    ((key, values),) = flat.items()
    rounds = options.get("rounds", fields_of(Run)["rounds"].default)
    return Choice(key, tuple(values), int(options.get("choose_rounds", rounds)))


def home() -> Path:
    """Where the experiments lie: in the checkout, or inside the installed package."""
    here = Path(__file__).resolve()
    inside, beside = here.parent / "files", here.parents[3] / "experiments"
    return inside if inside.is_dir() else beside


def names(root: Path | None = None) -> list[str]:
    """All experiments, by paper and name."""
    root = root or home()
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.toml"))


def some_names(root: Path | None = None) -> list[str]:
    """All experiments, of which there must be one."""
    found = names(root)
    if not found:
        raise InputError(f"no experiment lies in {root or home()}: give a directory with PAPER/NAME.toml")
    return found


def read(name: str, root: Path | None = None) -> Experiment:
    """One experiment, checked: every mistake in its file is found here and not after hours."""
    root = root or home()
    if name not in (known := some_names(root)):
        raise unknown("experiment", name, known)
    content = _content(name, root, ())
    _check_shape(content, name)
    experiment = Experiment(name, content)
    _check(experiment)
    return experiment


def _content(name: str, root: Path, seen: Sequence[str]) -> dict[str, Any]:
    path = root / f"{name}.toml"
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"the experiment {path} cannot be read: {error}") from None
    for key in own:
        if key not in _TOP:
            raise unknown(f"key in {path}:", key, _TOP)
    if "like" not in own:
        return own
    if own["like"] in (name, *seen):
        raise InputError(f"{path} is like {own['like']}, which is like it: leave one `like` out")
    base = _content(own["like"], root, (*seen, name))
    left = ["claims", *(["paper_values"] if "paper_values" in own else [])]  # claims are told once
    return _merged({key: value for key, value in base.items() if key not in left}, own)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Tables merge key by key; anything else is replaced."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _check_shape(content: Mapping[str, Any], name: str) -> None:
    """Tables are tables and lists are lists, so that all other code may take it for granted."""

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise InputError(f"the experiment {name} needs {what}: see experiments/README.md")

    def tables(inside: Any, where: str, depth: int) -> None:
        need(isinstance(inside, dict), f"{where} to be a table")
        for key, inner in inside.items() if depth else ():
            tables(inner, f"{where}.{key}", depth - 1)

    for key, depth in (("run", 0), ("columns", 1), ("rows", 1), ("cells", 2), ("paper_values", 1), ("sizes", 1)):
        tables(content.get(key, {}), key, depth)
    for name_of_size, size in content.get("sizes", {}).items():
        for axis in ("in", "of"):
            tables(size.get(axis, {}), f"sizes.{name_of_size}.{axis}", 1)
        for row, table in size.get("of", {}).items():
            tables(table.get("in", {}), f"sizes.{name_of_size}.of.{row}.in", 1)
        for axis in ("rows", "columns"):
            need(isinstance(size.get(axis, []), list), f"sizes.{name_of_size}.{axis} to be a list")
    for table in _tables({"sizes": {}, **content}):
        seeds = table.get("seeds", 1)
        need(type(seeds) is int and seeds > 0, f"seeds to be a whole number above 0, got {seeds!r}")
        for key in ("set", "choose"):
            tables(table.get(key, {}), key, 0)
    for key, words in (("outputs", ("kind",)), ("claims", ("text", "above", "below"))):
        listed = content.get(key, [])
        alike = isinstance(listed, list) and all(isinstance(table, dict) for table in listed)
        need(alike, f"{key} to be tables, [[{key}]]")
        for table in listed:
            for word in words:
                need(word in table, f"{word} in every [[{key}]]")


def _check(experiment: Experiment) -> None:
    content, name = experiment.content, experiment.name
    for key in ("id", "title", "paper", "sizes"):
        if key not in content:
            raise InputError(f"the experiment {name} needs {key}: add it to its file")
    for axis in ("rows", "columns"):
        for entry in content.get(f"only_{axis}", []):
            if entry not in content.get(axis, {}):
                raise unknown(f"{axis[:-1]} of {name}:", entry, content.get(axis, {}))
    for size, table in content["sizes"].items():
        if size not in SIZES:
            raise unknown(f"size of {name}:", size, SIZES)
        for axis in ("rows", "columns"):
            for entry in table.get(axis, []):
                if entry not in content.get(axis, {}):
                    raise unknown(f"{axis[:-1]} of {name}, size {size}:", entry, content.get(axis, {}))
        inside = [("rows", table.get("of", {})), ("columns", table.get("in", {}))]
        inside += [("columns", row.get("in", {})) for row in table.get("of", {}).values()]
        for axis, tables in inside:
            for entry in tables:
                if entry not in content.get(axis, {}):
                    raise unknown(f"{axis[:-1]} of {name}, size {size}:", entry, content.get(axis, {}))
    for table in _tables(content):
        for key in table:
            if key not in (*fields_of(Run), *_MEANT, "rows", "columns", "note", "in", "of"):
                raise unknown(f"option in {name}:", key, [*fields_of(Run), *_MEANT])
    for output in experiment.outputs:
        if output.kind not in KINDS:
            raise unknown(f"kind of output in {name}:", output.kind, KINDS)
    for table in content.get("claims", []):
        for key in table:
            if key not in Claim.__dataclass_fields__:
                raise unknown(f"key of a claim in {name}:", key, Claim.__dataclass_fields__)
        for axis, entries in (("rows", [*table["above"], *table["below"]]), ("columns", table.get("columns", []))):
            for entry in entries:
                if entry not in content.get(axis, {}):
                    raise unknown(f"{axis[:-1]} of a claim in {name}:", entry, content.get(axis, {}))
    for row, values in content.get("paper_values", {}).items():
        for column in values:
            if row not in content.get("rows", {}) or column not in content.get("columns", {}):
                raise InputError(f"{name} has a paper value for {row} in {column}, which it does not run: remove it")
    for size in content["sizes"]:
        for column in experiment.columns(size):
            experiment.dealt(size, column)
        for cell in experiment.cells(size):
            for seed in range(cell.seeds):
                first = cell.choice.values[0] if cell.choice else None
                cell.run(seed, first)
            cell.trials()


def _tables(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every table of options in an experiment's file."""
    yield content.get("run", {})
    yield from content.get("columns", {}).values()
    yield from content.get("rows", {}).values()
    for row in content.get("cells", {}).values():
        yield from row.values()
    for size in content["sizes"].values():
        yield size
        yield from size.get("in", {}).values()
        for row in size.get("of", {}).values():
            yield row
            yield from row.get("in", {}).values()


def only(experiment: Experiment, rows: Sequence[str], columns: Sequence[str]) -> Experiment:
    """The same experiment with some of its rows and columns."""
    content = dict(experiment.content)
    for axis, wanted in (("rows", rows), ("columns", columns)):
        there = content.get(f"only_{axis}", content.get(axis, {}))
        for entry in wanted:
            if entry not in there:
                raise unknown(f"{axis[:-1]} of {experiment.name}:", entry, there)
        if wanted:
            sizes = {
                name: {**size, axis: [entry for entry in size.get(axis, content[axis]) if entry in wanted]}
                for name, size in content["sizes"].items()
            }
            content = {**content, "sizes": sizes}
    return replace(experiment, content=content)
