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
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

OPTIONS = {
    "worth": ("against", "without"),
    "curves": ("y", "by", "rounds"),
    "sweep": ("xlabel",),
    "trajectories": ("silo",),
    "schedulers": ("rounds", "penalty_rounds"),
    "gains": ("against",),
}
"""What a kind of output understands besides its name, rows and columns."""

_TOP = (
    *("id", "title", "paper", "expect", "like", "only_rows", "only_columns"),
    *("run", "columns", "rows", "cells", "paper_values", "sizes", "outputs", "claims"),
)
_SHOWN = ("label", "value", "series")
_OWN = ("set", "seeds", "choose", "choose_rounds")
_MEANT = (*_OWN, *_SHOWN)
_OF_SIZE = ("rows", "columns", "note", "in", "of")
_OF_OUTPUT = ("kind", "name", "rows", "columns")
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
    than: str = ""  # the column that those below are of, where it is another one
    p: float = 1.0  # better, and by a test with at most this p-value


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
                str(table.get("than", "")),
                float(table.get("p", 1.0)),
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
            extra = {key: value for key, value in table.items() if key not in _OF_OUTPUT}
            name = table.get("name", stem if table["kind"] == "table" else f"{stem}-{table['kind']}")
            made.append(
                Output(table["kind"], name, tuple(table.get("rows", ())), tuple(table.get("columns", ())), extra)
            )
        return tuple(made)


def _scaled(size: Mapping[str, Any], column: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A size's options for all rows of a column."""
    own = {key: value for key, value in size.items() if key not in _OF_SIZE}
    return own, size.get("in", {}).get(column, {})


def _joined(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Later tables win; a method's own options add up."""
    options: dict[str, Any] = {}
    for table in tables:
        inner = {**options.get("set", {}), **table.get("set", {})}
        options = {**options, **table, "set": inner}
    return options


def _choice(options: Mapping[str, Any]) -> Choice | None:
    wanted = _flat(options.get("choose", {}))
    if not wanted:
        return None
    if len(wanted) != 1:
        raise InputError(f"choose takes one option, got {', '.join(wanted)}: choose one of them")
    ((key, values),) = wanted.items()
    rounds = options.get("rounds", fields_of(Run)["rounds"].default)
    return Choice(key, tuple(values), options.get("choose_rounds", rounds))


def _flat(choose: Mapping[str, Any]) -> dict[str, Any]:
    """Options and the values to choose from; a method's own options as "set.alpha"."""
    own = {f"set.{key}": values for key, values in choose.get("set", {}).items()}
    return {key: values for key, values in choose.items() if key != "set"} | own


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


@dataclass(frozen=True)
class _Shape:
    """Refuses what is not of the type that all other code takes for granted."""

    name: str

    def need(self, holds: bool, what: str, got: Any) -> None:
        if not holds:
            raise InputError(f"the experiment {self.name} needs {what}, got {got!r}: see experiments/README.md")

    def tables(self, inside: Any, where: str, depth: int = 0) -> None:
        self.need(isinstance(inside, dict), f"{where} to be a table", inside)
        for key, inner in inside.items() if depth else ():
            self.tables(inner, f"{where}.{key}", depth - 1)

    def texts(self, inside: Any, where: str) -> None:
        alike = isinstance(inside, list) and all(isinstance(entry, str) for entry in inside)
        self.need(alike, f"{where} to be a list of names", inside)

    def plain(self, value: Any, where: str) -> None:
        self.need(isinstance(value, (str, int, float)), f"{where} to be text, a number, true or false", value)


def _check_shape(content: Mapping[str, Any], name: str) -> None:
    """Tables are tables, lists are lists and numbers are numbers."""
    shape = _Shape(name)
    for key, depth in (("run", 0), ("columns", 1), ("rows", 1), ("cells", 2), ("paper_values", 1), ("sizes", 1)):
        shape.tables(content.get(key, {}), key, depth)
    for name_of_size, size in content.get("sizes", {}).items():
        for axis in ("in", "of"):
            shape.tables(size.get(axis, {}), f"sizes.{name_of_size}.{axis}", 1)
        for row, table in size.get("of", {}).items():
            shape.tables(table.get("in", {}), f"sizes.{name_of_size}.of.{row}.in", 1)
        for axis in ("rows", "columns"):
            shape.texts(size.get(axis, []), f"sizes.{name_of_size}.{axis}")
    for key in ("only_rows", "only_columns"):
        shape.texts(content.get(key, []), key)
    for where, table, _ in _tables({"sizes": {}, **content}):
        _check_options(shape, table, where)
    for row, values in content.get("paper_values", {}).items():
        for column, value in values.items():
            right = isinstance(value, str) or _number(value)
            shape.need(right, f"paper_values.{row}.{column} to be a number or text", value)
    _check_listed(shape, content)


def _check_options(shape: _Shape, table: Mapping[str, Any], where: str) -> None:
    for key in ("seeds", "choose_rounds"):
        count = table.get(key, 1)
        shape.need(type(count) is int and count > 0, f"{key} to be a whole number above 0", count)
    shape.tables(table.get("set", {}), f"{where}.set")
    for key, value in table.get("set", {}).items():
        shape.plain(value, f"{where}.set.{key}")
    choose = table.get("choose", {})
    shape.tables(choose, f"{where}.choose")
    shape.tables(choose.get("set", {}), f"{where}.choose.set")
    for key, values in _flat(choose).items():
        listed = isinstance(values, list) and bool(values)
        shape.need(listed, f"{where}.choose.{key} to be a list of values to choose from", values)
        for value in values:
            shape.plain(value, f"every value of {where}.choose.{key}")


def _check_listed(shape: _Shape, content: Mapping[str, Any]) -> None:
    """Outputs and claims."""
    for key, words in (("outputs", ("kind",)), ("claims", ("text", "above", "below"))):
        listed = content.get(key, [])
        alike = isinstance(listed, list) and all(isinstance(table, dict) for table in listed)
        shape.need(alike, f"{key} to be tables, [[{key}]]", listed)
        for table in listed:
            for word in words:
                shape.need(word in table, f"{word} in every [[{key}]]", table)
            for word in ("kind", "name", "text", "against", "than"):
                told = table.get(word, "")
                shape.need(isinstance(told, str), f"{word} in [[{key}]] to be text", told)
            for word in ("rows", "columns", "above", "below", "without"):
                shape.texts(table.get(word, []), f"{word} in [[{key}]]")
            for word in ("within", "p"):
                shape.need(_number(table.get(word, 0)), f"{word} in [[{key}]] to be a number", table.get(word))
            file = table.get("name", "it")
            plain = re.fullmatch(r"\w[\w.-]*", file) is not None
            shape.need(plain, f"name in [[{key}]] to be a plain file name, of letters, digits, ., - and _", file)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _check(experiment: Experiment) -> None:
    content, name = experiment.content, experiment.name
    for key in ("id", "title", "paper", "sizes"):
        if key not in content:
            raise InputError(f"the experiment {name} needs {key}: add it to its file")
    _check_names(content, name)
    options = [key for key in fields_of(Run) if key != "seed"]
    for where, table, more in _tables(content):
        if "seed" in (*table, *table.get("choose", {})):
            raise InputError(f"{name} runs the seeds 0, 1, ..., got seed in {where}: say how many, seeds = 3")
        _known(f"option in {name}, {where}:", table, [*options, *_OWN, *more])
        _known(f"option to choose in {name}, {where}:", table.get("choose", {}), options, "set")
    for output in experiment.outputs:
        _known(f"kind of output in {name}:", [output.kind], KINDS)
        _known(f"key of the output {output.name} in {name}:", output.options, OPTIONS.get(output.kind, ()), *_OF_OUTPUT)
    for table in content.get("claims", []):
        _known(f"key of a claim in {name}:", table, Claim.__dataclass_fields__)
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


def _check_names(content: Mapping[str, Any], name: str) -> None:
    """Rows and columns are there wherever they are named."""

    def there(axis: str, entries: Iterable[str], where: str = name) -> None:
        _among(name, axis, entries, content.get(axis, {}), where)

    for axis in ("rows", "columns"):
        there(axis, content.get(f"only_{axis}", []))
    there("rows", content.get("cells", {}), f"cells in {name}")
    for row in content.get("cells", {}).values():
        there("columns", row, f"cells in {name}")
    for size, table in content["sizes"].items():
        _known(f"size of {name}:", [size], SIZES)
        where = f"{name}, size {size}"
        there("rows", table.get("rows", []), where)
        there("columns", table.get("columns", []), where)
        there("rows", table.get("of", {}), where)
        there("columns", table.get("in", {}), where)
        for row in table.get("of", {}).values():
            there("columns", row.get("in", {}), where)
    for table in content.get("outputs", []):
        against = [table["against"]] if "against" in table else []
        there("rows", [*table.get("rows", []), *against, *table.get("without", [])], f"an output in {name}")
        there("columns", table.get("columns", []), f"an output in {name}")
    for table in content.get("claims", []):
        there("rows", [*table["above"], *table["below"]], f"a claim in {name}")
        than = [table["than"]] if "than" in table else []
        there("columns", [*table.get("columns", []), *than], f"a claim in {name}")


def _known(what: str, words: Iterable[str], known: Iterable[str], *also: str) -> None:
    """Refuse a word that is not known; `also` are known but not told."""
    for word in words:
        if word not in (*known, *also):
            raise unknown(what, word, known)


def _among(name: str, axis: str, entries: Iterable[str], there: Iterable[str], where: str) -> None:
    """Refuse a row or column that is not there."""
    for entry in entries:
        if not there:
            raise InputError(f"{name} has no {axis}, got {entry!r}: leave {axis} out")
        _known(f"{axis[:-1]} of {where}:", [entry], there)


def _tables(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Sequence[str]]]:
    """Every table of options in an experiment's file: where, the table, what it may have besides."""
    yield "run", content.get("run", {}), ()
    for axis in ("columns", "rows"):
        for entry, table in content.get(axis, {}).items():
            yield f"{axis}.{entry}", table, _SHOWN
    for row, columns in content.get("cells", {}).items():
        for column, table in columns.items():
            yield f"cells.{row}.{column}", table, ()
    for size, scale in content["sizes"].items():
        yield f"sizes.{size}", scale, _OF_SIZE
        for column, table in scale.get("in", {}).items():
            yield f"sizes.{size}.in.{column}", table, ()
        for row, of_row in scale.get("of", {}).items():
            yield f"sizes.{size}.of.{row}", of_row, ("in",)
            for column, table in of_row.get("in", {}).items():
                yield f"sizes.{size}.of.{row}.in.{column}", table, ()


def only(experiment: Experiment, rows: Sequence[str], columns: Sequence[str], *, size: str | None = None) -> Experiment:
    """The same experiment with some of its rows and columns; a size that is named must run each of them."""
    content, name = dict(experiment.content), experiment.name
    for axis, wanted in (("rows", rows), ("columns", columns)):
        _among(name, axis, wanted, content.get(f"only_{axis}", content.get(axis, {})), name)
        if size is not None:
            _check_run(experiment, size, axis, wanted)
        if wanted:
            sizes = {
                key: {**table, axis: [entry for entry in table.get(axis, content[axis]) if entry in wanted]}
                for key, table in content["sizes"].items()
            }
            content = {**content, "sizes": sizes}
    return replace(experiment, content=content)


def _check_run(experiment: Experiment, size: str, axis: str, wanted: Iterable[str]) -> None:
    run = experiment.rows(size) if axis == "rows" else experiment.columns(size)
    for entry in wanted:
        if entry not in run:
            rule = f"size {size} of {experiment.name} does not run {entry}"
            raise InputError(f"{rule}, it runs {', '.join(run) or 'nothing'}: choose among these or another size")
