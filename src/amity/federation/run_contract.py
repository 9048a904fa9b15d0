"""The run contract: what every silo agrees to before its data are touched, signed by the consortium.

A contract says who invites whom to what: method, rounds, form of the data, who must be there, and all that leaves a
silo, by name and size. It has one text and one hash. Whoever approves it approves that hash, so that nothing can be
changed afterwards without asking again.

`signed.py` puts the signature under it. Where examples are rows of tables that a schema codes, the whole schema is part
of the contract: every silo codes by it, and one that would code otherwise is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple

from amity.config.run import Run
from amity.errors import InputError
from amity.federation import contract_rules
from amity.federation import strict_json as strict

FORM = 1
"""The version of what is written here; a silo that knows another one refuses it."""

Policy = Literal["wait", "quorum"]
Wire = Literal["float32", "float16", "bfloat16"]
Leaves = Literal["tensor", "metric", "count"]


class RefusedContract(InputError):
    """A contract that cannot be relied on: it is damaged, of another version, or not signed by who may sign it."""


class DataForm(NamedTuple):
    """The form that all silos' data have in common."""

    shape: tuple[int, ...]  # of one example
    labels: tuple[str, ...] | None  # names of the classes, in the order of their numbers; None: quantities
    features: tuple[str, ...] | None = None  # names of the columns where examples are rows of tables
    schema: Mapping[str, Any] | None = None  # how columns become these features, as schema files have it

    @property
    def classes(self) -> int:
        """The number of classes; 0 where labels are quantities."""
        return 0 if self.labels is None else len(self.labels)

    def table(self) -> dict[str, Any]:
        """Return it as JSON holds it; what has no schema says nothing of one."""
        found = {key: list(value) if isinstance(value, tuple) else value for key, value in self._asdict().items()}
        if self.schema is None:
            del found["schema"]
        return found


def schema_hash(schema: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a whole schema: kinds, categories, centres, scales and the order of columns."""
    return hashlib.sha256(strict.canonical(schema).encode()).hexdigest()


class Limits(NamedTuple):
    """How long a run waits, and how often it tries."""

    turn: int = 3600  # seconds that one turn may take at most, whatever a silo's pace
    absence: int = 86400  # seconds that a run waits for a missing silo before it is given up
    failures: int = 20  # restarts after which a run is given up


class Leaving(NamedTuple):
    """One thing that leaves a silo."""

    name: str
    kind: Leaves
    bytes: int  # each time
    words: str  # what it is, and when it leaves


@dataclass(frozen=True)
class RunContract:
    """All that a silo agrees to."""

    KEY: ClassVar[str] = "contract"
    PURPOSE: ClassVar[bytes] = b"amity run contract 1\n"

    name: str  # of the run
    consortium: str
    run: Mapping[str, Any]  # Run.table()
    data: DataForm
    layout: str  # a hash of model and method: see federation/plan.py
    invited: tuple[str, ...]
    quorum: int  # silos whose uploads a round needs; below it no round is aggregated
    policy: Policy  # wait for those who are missing, or go on without them as long as the quorum is there
    least_rounds: int  # that each silo must have taken part in for the run to be a success
    limits: Limits
    leaves: tuple[Leaving, ...]
    wire: Wire
    privacy: Mapping[str, Any]
    amity: str  # the version of Amity at the coordinator

    def __post_init__(self) -> None:
        try:
            strict.check(self.table())
            contract_rules.check(self)
        except ValueError as error:  # so is an InputError about an option
            raise RefusedContract(f"a run contract cannot be used, {error}: make it anew") from None

    @property
    def options(self) -> Run:
        """The run that it is about."""
        return contract_rules.options_of(self.run)

    @property
    def rounds(self) -> int:
        """The rounds of its run, its ending among them."""
        return self.options.all_rounds

    def table(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        flat = {field.name: getattr(self, field.name) for field in fields(self)}
        leaves = [leaving._asdict() for leaving in self.leaves]
        return {
            **flat,
            "run": dict(self.run),
            "data": self.data.table(),
            "invited": list(self.invited),
            "limits": self.limits._asdict(),
            "leaves": leaves,
            "privacy": dict(self.privacy),
        }

    def canonical(self) -> str:
        """Return its one text, which is hashed and signed."""
        return strict.canonical({"form": FORM, self.KEY: self.table()})

    def hash(self) -> str:
        """Return the SHA-256 of its canonical text: what is approved."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def contract_of(value: Any) -> RunContract:
    """Return the contract that a table describes, with exactly its keys, each of its type."""
    found = dict(strict.table(value, [field.name for field in fields(RunContract)], "the contract"))
    for key in ("name", "consortium", "layout", "policy", "wire", "amity"):
        strict.of_type(found[key], str, key)
    for key in ("quorum", "least_rounds"):
        strict.of_type(found[key], int, key)
    for key in ("run", "privacy"):
        strict.of_type(found[key], dict, key)
    found["data"] = _form(found["data"])
    limits = strict.table(found["limits"], Limits._fields, "limits")
    found["limits"] = Limits(**{key: strict.of_type(number, int, key) for key, number in limits.items()})
    found["invited"] = strict.texts(found["invited"], "invited")
    found["leaves"] = tuple(map(_leaving, strict.of_type(found["leaves"], list, "leaves")))
    return RunContract(**found)


def _form(value: Any) -> DataForm:
    keys = DataForm._fields if isinstance(value, dict) and "schema" in value else DataForm._fields[:-1]
    form = strict.table(value, keys, "data")
    return DataForm(
        tuple(strict.of_type(side, int, "shape") for side in strict.of_type(form["shape"], list, "shape")),
        None if form["labels"] is None else strict.texts(form["labels"], "labels"),
        None if form["features"] is None else strict.texts(form["features"], "features"),
        strict.of_type(form["schema"], dict, "schema") if "schema" in form else None,
    )


def _leaving(value: Any) -> Leaving:
    found = strict.table(value, Leaving._fields, "what leaves")
    kinds = {"name": str, "kind": str, "bytes": int, "words": str}
    return Leaving(**{key: strict.of_type(found[key], kind, key) for key, kind in kinds.items()})
