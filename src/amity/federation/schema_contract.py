"""The contract about a schema: silos are asked for summaries of their columns, before any run.

A run's contract names the model's layout and all that leaves a silo by size. Both follow from the features, and the
features from the schema; so silos agree on a schema first, under this small contract of its own, and the run's contract
then holds the whole schema. What leaves a silo here is one summary of its training rows, and nothing else
(`contract_words.py` has it in plain words, `data/schema/summary.py` in code).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from amity.federation import contract_rules
from amity.federation import strict_json as strict
from amity.federation.run_contract import FORM, Limits, RefusedContract

SUMMARY = 1
"""The version of summaries that is asked for: what they tell."""

FEWEST = 5
"""Rows that must share a word before a silo names it, at least; a contract may ask for more."""

MOST_COUNT = 10_000

Scale = Literal["auto", "none"]


@dataclass(frozen=True)
class SchemaContract:
    """All that a silo agrees to when it lets a summary of its columns go."""

    KEY: ClassVar[str] = "schema"
    PURPOSE: ClassVar[bytes] = b"amity schema contract 1\n"

    name: str
    consortium: str
    invited: tuple[str, ...]
    label: str  # the column of the labels, which is in no summary
    labels: tuple[str, ...] | None  # names of the classes; None: quantities. Rows are divided by them
    seed: int  # with which a run will divide rows into train and test
    test_fraction: float
    scale: Scale  # how numbers will be scaled: by mean and deviation over all silos, or not
    least_count: int  # rows of a silo that share a word, or have a number, before anything is told of it
    limits: Limits
    summary: int  # SUMMARY
    amity: str

    def __post_init__(self) -> None:
        try:
            strict.check(self.table())
            contract_rules.check_named(self)
            _check(self)
        except ValueError as error:
            raise RefusedContract(f"a schema's contract cannot be used, {error}: make it anew") from None

    @property
    def quorum(self) -> int:
        """The silos without whom there is no schema: all of them."""
        return len(self.invited)

    @property
    def policy(self) -> Literal["wait"]:
        """It waits for those who are missing."""
        return "wait"

    @property
    def rounds(self) -> int:
        """It has none."""
        return 0

    def table(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        flat = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {key: None if flat[key] is None else list(flat[key]) for key in ("invited", "labels")}
        return {**flat, **lists, "limits": self.limits._asdict()}

    def canonical(self) -> str:
        """Return its one text, which is hashed and signed."""
        return strict.canonical({"form": FORM, self.KEY: self.table()})

    def hash(self) -> str:
        """Return the SHA-256 of its canonical text: what is approved."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def _check(contract: SchemaContract) -> None:
    if not contract.label:
        raise ValueError("the column of the labels has a name")
    if contract.labels is not None and not 2 <= len(set(contract.labels)) == len(contract.labels):
        raise ValueError("there are at least 2 classes, each once")
    if not 0 < contract.test_fraction < 1:
        raise ValueError(f"test_fraction is > 0 and < 1, got {contract.test_fraction}")
    if contract.scale not in get_args(Scale):
        raise ValueError(f"scale is auto or none, got {contract.scale!r:.60}")
    if not FEWEST <= contract.least_count <= MOST_COUNT:
        raise ValueError(f"least_count is {FEWEST} to {MOST_COUNT:,}, got {contract.least_count}")
    if contract.summary != SUMMARY:
        raise ValueError(f"it asks for summaries of version {contract.summary}, known is {SUMMARY}")


def schema_contract_of(value: Any) -> SchemaContract:
    """Return the contract that a table describes, with exactly its keys, each of its type."""
    found = dict(strict.table(value, [field.name for field in fields(SchemaContract)], "the contract"))
    for key in ("name", "consortium", "label", "scale", "amity"):
        strict.of_type(found[key], str, key)
    for key in ("seed", "least_count", "summary"):
        strict.of_type(found[key], int, key)
    strict.of_type(found["test_fraction"], float, "test_fraction")
    limits = strict.table(found["limits"], Limits._fields, "limits")
    found["limits"] = Limits(**{key: strict.of_type(number, int, key) for key, number in limits.items()})
    found["invited"] = strict.texts(found["invited"], "invited")
    found["labels"] = None if found["labels"] is None else strict.texts(found["labels"], "labels")
    return SchemaContract(**found)
