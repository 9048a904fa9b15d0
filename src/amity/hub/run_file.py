"""RUN.toml, in which the coordinator describes a run, becomes the contract that silos agree to.

    name = "sepsis-1"
    invited = ["aurora", "borea"]       # all members where it is left out
    policy = "quorum"                   # or "wait" (the default): no round without all who are invited
    quorum = 2                          # with policy = "quorum"
    least_rounds = 10                   # that each silo must take part in for the run to be a success
    wire = "float32"                    # or float16, bfloat16: the type of the numbers that are sent

    [limits]                            # seconds of a turn, seconds of an absence, restarts
    turn = 3600

    [data]                              # the form that all silos' data have
    features = ["age", "pulse"]         # columns of tables; else shape = [1, 28, 28], or schema = "schema.toml"
    labels = ["ill", "well"]            # or classes = 10, or labels = "quantities": see run_data.py

    [run]                               # options of `amity run` that make sense between silos
    method = "fedamp"
    rounds = 20
    [run.set]                           # the method's own
    sigma = 50.0

The model's layout and what leaves a silo follow from the plan of a made-up roster: all invited, with data of this form.

Where [data] names a schema, silos may agree on it first: the same file makes the contract about that too.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, get_args

from amity.config.options import fields_of, nearest
from amity.config.references import REFERENCES
from amity.config.run import Run
from amity.errors import InputError
from amity.federation.contract_rules import ELSEWHERE, FACTORY, NAME, too_few_to_mix
from amity.federation.leaving import leaving
from amity.federation.plan import Member, layout_of
from amity.federation.run_contract import DataForm, Limits, Policy, RunContract, Wire
from amity.federation.schema_contract import SUMMARY, SchemaContract
from amity.hub.run_data import DataReader, texts
from amity.record.files import load_toml
from amity.resolve import Builds, Resolved, method_of, resolve

KEYS = ("name", "invited", "policy", "quorum", "least_rounds", "wire", "limits", "data", "run")
SCHEMA = "-schema"  # what the agreement on a run's schema is called, after its name

_NOISY = ("dp_clip", "dp_delta")  # options that mean nothing without noise: they are tried with some
_SIZE = 100  # training examples of a made-up silo


def contract_of_file(path: Path, consortium: str, members: Sequence[str]) -> RunContract:
    """Return the contract that a RUN.toml describes, for these members. All that is wrong with it is said at once."""
    reader = _Reader(load_toml(path), members, path.parent)
    contract = reader.contract(consortium)
    if contract is None:
        raise InputError(f"{path}: {'; '.join(reader.problems)}")
    return contract


class Asked(NamedTuple):
    """The contract about the schema of a run, and the file that the schema is for."""

    contract: SchemaContract
    file: Path


def schema_contract_of_file(path: Path, consortium: str, members: Sequence[str]) -> Asked:
    """Return the contract by which silos agree on the schema that a RUN.toml names."""
    reader = _Reader(load_toml(path), members, path.parent)
    asked = reader.asked(consortium)
    if asked is None:
        raise InputError(f"{path}: {'; '.join(reader.problems)}")
    return asked


def model_of(run: Run) -> Builds | None:
    """Return the function that a run names as module:function; None for a model that Amity has."""
    if not FACTORY.fullmatch(run.model):
        return None
    module, _, name = run.model.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"model names {run.model!r}, which is not found here ({error}): install its package") from None
    if not callable(found):
        raise InputError(f"model needs a function that builds a module, {run.model!r} is none: name another")
    builder: Builds = found
    return builder


def planned(run: Run, data: DataForm, invited: Sequence[str]) -> Resolved:
    """Return the plan with made-up silos of this form. Method, model and layout are those of the real run."""
    roster = [Member(name, _SIZE, data.shape, data.classes) for name in invited]
    return resolve(run, roster, model=model_of(run))


class _Reader:
    """Reads one part after the other, and collects what is wrong."""

    def __init__(self, table: Mapping[str, Any], members: Sequence[str], folder: Path) -> None:
        self._table = table
        self._members = members
        self._folder = folder
        self.problems: list[str] = []

    def contract(self, consortium: str) -> RunContract | None:
        """Return the contract, or None where there are problems."""
        name = self._name()
        invited, data, run, limits = self._invited(), self._data(), self._run(), self._limits()
        policy, wire = self._choice("policy", get_args(Policy)), self._choice("wire", get_args(Wire), "float32")
        quorum, least = self._quorum(policy, invited), self._least_rounds(policy, run)
        if run is not None and invited and (few := too_few_to_mix(run, quorum)) is not None:
            self.problems.append(f"{few}: raise it, or lower run.min_mix")
        if self.problems or run is None or data is None:
            return None
        try:
            resolved, plan = planned(run, data, invited)
            run = replace(run, ending=resolved.ending)
            kept = run if FACTORY.fullmatch(run.model) else replace(run, model=resolved.model)
            return RunContract(
                name=str(name),
                consortium=consortium,
                run=kept.table(),
                data=data,
                layout=layout_of(plan),
                invited=tuple(invited),
                quorum=quorum,
                policy=policy,
                least_rounds=least,
                limits=limits,
                leaves=leaving(plan, run, wire),
                wire=wire,
                privacy={} if run.privacy is None else run.privacy.words(),
                amity=version("amity"),
            )
        except InputError as error:
            self.problems.append(str(error))
            return None

    def asked(self, consortium: str) -> Asked | None:
        """Return the contract about the run's schema, or None where there are problems."""
        name, invited, run, limits = self._name(), self._invited(), self._run(), self._limits()
        reader = DataReader(self._part("data", needed=True), self._folder)
        terms = reader.terms()
        self.problems += reader.problems
        if self.problems or run is None or terms is None:
            return None
        contract = SchemaContract(
            name=f"{name}{SCHEMA}",
            consortium=consortium,
            invited=tuple(invited),
            label=terms.label,
            labels=terms.labels,
            seed=run.seed,
            test_fraction=float(run.test_fraction),
            scale=terms.scale,
            least_count=terms.least_count,
            limits=limits,
            summary=SUMMARY,
            amity=version("amity"),
        )
        return Asked(contract, terms.file)

    def _name(self) -> str | None:
        self._known(self._table, KEYS, "")
        name = self._text("name")
        if name is not None and not NAME.fullmatch(name + SCHEMA):
            self._wrong("name", f"letters, digits, - and _, at most {80 - len(SCHEMA)}", name)
        return name

    def _invited(self) -> list[str]:
        value = self._table.get("invited", list(self._members))
        if not texts(value) or len(set(value)) < len(value):
            self._wrong("invited", "a list of members, each once", value)
            return []
        if not value or not self._members:
            self.problems.append("invited must name members, there are none: `amity federation add` admits them")
            return []
        for name in value:
            if name not in self._members:
                self.problems.append(f"invited names {name!r:.60}, who is no member: {nearest(name, self._members)}")
        return list(value)

    def _quorum(self, policy: Policy, invited: Sequence[str]) -> int:
        value = self._table.get("quorum", len(invited) if policy == "wait" else None)
        if value is None:
            self.problems.append('quorum is missing: with policy = "quorum" say how many silos a round needs')
        elif not _whole(value, 1, len(invited)) and invited:
            self._wrong("quorum", f"a whole number from 1 to {len(invited)}, the silos invited", value)
        elif policy == "wait" and value != len(invited) and invited:
            self.problems.append(
                f'quorum is all {len(invited)} with policy = "wait", got {value}: set policy = "quorum"'
            )
        return value if isinstance(value, int) else 0

    def _least_rounds(self, policy: Policy, run: Run | None) -> int:
        rounds = 1 if run is None else run.rounds
        always = policy == "wait" and run is not None and run.who.participation == 1
        value = self._table.get("least_rounds", rounds if always else 1)
        if run is not None and not _whole(value, 0, rounds):
            self._wrong("least_rounds", f"a whole number from 0 to {rounds}, the run's rounds", value)
        return value if isinstance(value, int) else 0

    def _limits(self) -> Limits:
        table = self._part("limits")
        self._known(table, Limits._fields, "limits.")
        for key in Limits._fields:
            if key in table and not _whole(table[key], 1, 10**9):
                self._wrong(f"limits.{key}", "a whole number from 1", table[key])
        return Limits(**{key: table[key] for key in Limits._fields if key in table})

    def _data(self) -> DataForm | None:
        reader = DataReader(self._part("data", needed=True), self._folder)
        form = reader.form()
        self.problems += reader.problems
        return form

    def _run(self) -> Run | None:
        table = self._part("run", needed=True)
        before, found = len(self.problems), {}
        known = [name for name in fields_of(Run) if name not in ELSEWHERE]
        self._known({key: None for key in table if key not in ELSEWHERE}, [*known, "set"], "run.")
        for key, value in table.items():
            if key in ELSEWHERE:
                self.problems.append(f"run.{key} has no place between silos, {ELSEWHERE[key]}: leave it out")
            elif key in known and self._tried({key: value, **({} if key not in _NOISY else {"dp_noise": 1.0})}):
                found[key] = value
        if "method" not in table:
            self.problems.append("run.method is missing: name one, see `amity methods`")
        elif found.get("method") == "pooled":
            self.problems.append("run.method pooled needs all data in one place, which silos do not do: name another")
        elif "method" in found:
            self._settings(found["method"], table.get("set", {}))
        if len(self.problems) > before or not self._tried(found):
            return None
        found.setdefault("robust", "norm")  # nobody loses by another silo's broken upload
        run = Run(**found, settings=dict(table.get("set", {})))
        if "safe" in found or run.method in REFERENCES or run.privacy is not None:  # which no ending goes with
            return run
        return replace(run, safe=True)  # between real silos nobody loses by joining

    def _settings(self, method: str, settings: Any) -> None:
        """Try a method's options one by one, so that each mistake is told."""
        if not isinstance(settings, dict):
            self._wrong("run.set", "a table of the method's own options", settings)
            return
        if self._tried({"method": method}, build=True):
            for key, value in settings.items():
                self._tried({"method": method, "settings": {key: value}}, build=True)

    def _tried(self, options: Mapping[str, Any], *, build: bool = False) -> bool:
        try:
            run = Run(**options)
            if build:
                method_of(run)
        except InputError as error:
            self.problems.append(str(error))
            return False
        return True

    def _part(self, key: str, *, needed: bool = False) -> Mapping[str, Any]:
        value = self._table.get(key)
        if isinstance(value, dict):
            return value
        if value is not None or needed:
            self._wrong(f"[{key}]", "a table", value)
        return {}

    def _text(self, key: str) -> str | None:
        value = self._table.get(key)
        if isinstance(value, str):
            return value
        self._wrong(key, "a text", value)
        return None

    def _choice(self, key: str, words: Sequence[Any], default: str = "wait") -> Any:
        value = self._table.get(key, default)
        if value not in words:
            self._wrong(key, " or ".join(words), value)
        return value

    def _known(self, table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
        for key in table:
            if key not in keys:
                self.problems.append(f"unknown key {where}{key!s:.60}: {nearest(key, keys)}")

    def _wrong(self, key: str, rule: str, value: Any) -> None:
        got = "is missing" if value is None else f"got {value!r:.80}"
        self.problems.append(f"{key} must be {rule}, {got}: change it")


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
