"""A silo's standing policy, `[policy]` in its silo.toml: to which runs it says yes, and whether somebody has to.

    [policy]
    methods = ["fedamp", "fedavg"]      # or "any"
    most_rounds = 100                   # of the method; what a silo trains for itself after them sends no model
    most_epochs = 5                     # in one turn of them
    least_invited = 3                   # silos
    least_quorum = 2                    # silos that a round needs
    most_megabytes = 50                 # that leave this silo in a round
    most_epsilon = 4                    # that a run may spend here, by differential privacy; without it, any or none
    least_mix = 3                       # other silos' models that are mixed in what any silo is sent: a run's min_mix
    least_tested = 5                    # examples that a score must rest on before it is told: a run's min_count
    metrics = ["accuracy", "loss"]      # that may leave this silo; or "any"
    wire = ["float32"]                  # types of the numbers sent; or "any"
    approve = "standing"                # what is within these limits needs no approval by hand
    summaries = "by hand"               # of its columns, for a schema: "never", or "standing" without an approval
    least_count = 10                    # rows that must share a word before a summary may name it

The limits hold in any case. Within them a run needs an approval by hand, unless `approve` says "standing": whoever has
not written a policy is asked about every run. A standing approval of runs is none of summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, get_args

from amity.config.options import nearest
from amity.config.references import ALONE
from amity.config.run import Run
from amity.errors import InputError
from amity.federation.approvals import Approval
from amity.federation.contract_words import bytes_per_round
from amity.federation.run_contract import RunContract, Wire
from amity.federation.schema_contract import SchemaContract
from amity.federation.signed import Contract

Words = Literal["any"] | tuple[str, ...]

BY_POLICY = "standing policy"
MEGABYTE = 10**6


@dataclass(frozen=True)
class SiloPolicy:
    """What a silo agrees to in general. Without any limit it leaves everything to whoever approves by hand."""

    methods: Words = "any"
    most_rounds: int | None = None
    most_epochs: int | None = None
    least_invited: int = 1
    least_quorum: int = 1
    most_megabytes: float | None = None
    metrics: Words = "any"
    wire: Words = "any"
    approve: Literal["by hand", "standing"] = "by hand"
    summaries: Literal["never", "by hand", "standing"] = "by hand"
    least_count: int = 1
    most_epsilon: float | None = None
    least_mix: int = 1
    least_tested: int = 1

    def stands(self, contract: Contract) -> bool:
        """Whether a contract within the limits needs no approval by hand."""
        return (self.approve if isinstance(contract, RunContract) else self.summaries) == "standing"


class Decision(NamedTuple):
    """Whether a silo takes part, by whose word, and all that speaks against it."""

    approved: bool
    by: str
    reasons: tuple[str, ...]


def decide(
    contract: Contract, policy: SiloPolicy, approvals: Iterable[Approval], *, silo: str | None = None
) -> Decision:
    """Return whether a contract is agreed to: within the policy, and approved by hand where the policy asks for it.

    `silo` is who decides: it must be among those invited.
    """
    reasons = objections(contract, policy, silo=silo)
    by = BY_POLICY if policy.stands(contract) else _approver(contract, approvals, silo)
    if by is None:
        reasons.append(f"nobody here has approved it by hand: amity federation approve {contract.name} --site SITE")
    return Decision(not reasons, by or "", tuple(reasons))


def objections(contract: Contract, policy: SiloPolicy, *, silo: str | None = None) -> list[str]:
    """Return all that a policy has against a contract, whoever may have approved it."""
    against = _to_run(contract, policy) if isinstance(contract, RunContract) else _to_summaries(contract, policy)
    found = [
        None if silo is None or silo in contract.invited else f"{silo} is not among those invited",
        *against,
    ]
    return [reason for reason in found if reason is not None]


def _to_summaries(contract: SchemaContract, policy: SiloPolicy) -> list[str | None]:
    return [
        "summaries is never, it asks for one of this silo's columns" if policy.summaries == "never" else None,
        _below("least_invited", len(contract.invited), policy.least_invited),
        _below("least_count", contract.least_count, policy.least_count),
    ]


def _to_run(contract: RunContract, policy: SiloPolicy) -> list[str | None]:
    run = contract.options
    epochs = max(run.who.local_epochs_range or (0, run.epochs))
    metrics = [leaving.name for leaving in contract.leaves if leaving.kind == "metric"]
    megabytes = bytes_per_round(contract) / MEGABYTE
    return [
        _outside("methods", [run.method], policy.methods),
        _beyond("most_rounds", run.rounds, policy.most_rounds),
        _beyond("most_epochs", epochs, policy.most_epochs),
        _below("least_invited", len(contract.invited), policy.least_invited),
        _below("least_quorum", contract.quorum, policy.least_quorum),
        _beyond("most_megabytes", megabytes, policy.most_megabytes),
        _beyond_epsilon(run, policy.most_epsilon),
        None if run.method == ALONE else _below("least_mix", run.min_mix, policy.least_mix, "min_mix "),
        _below("least_tested", run.min_count, policy.least_tested, "min_count "),
        _outside("metrics", metrics, policy.metrics),
        _outside("wire", [contract.wire], policy.wire),
    ]


def policy_of(table: Any) -> SiloPolicy:
    """Return the policy that the table of a silo.toml describes. All that is wrong with it is said at once."""
    if not isinstance(table, Mapping):
        raise InputError(f"[policy] is a table, got {table!r:.60}: see the documentation of silo.toml")
    known = [field.name for field in fields(SiloPolicy)]
    problems = [f"unknown key {key!r:.60}: {nearest(str(key), known)}" for key in table if key not in known]
    found: dict[str, Any] = {}
    for key in (key for key in known if key in table):
        rule, value = _RULES[key], table[key]
        if rule.holds(value):
            found[key] = tuple(value) if isinstance(value, list) else value
        else:
            problems.append(f"{key} must be {rule.words}, got {value!r:.80}: change it, or leave it out")
    if problems:
        raise InputError(f"[policy]: {'; '.join(problems)}")
    return SiloPolicy(**found)


def _approver(contract: Contract, approvals: Iterable[Approval], silo: str | None) -> str | None:
    """Return who has approved exactly this contract, for this silo."""
    wanted = contract.hash(), contract.name
    fitting = (one for one in approvals if (one.contract, one.run) == wanted and silo in (None, one.silo))
    return next((one.who for one in fitting), None)


def _outside(key: str, found: Iterable[str], allowed: Words) -> str | None:
    more = [] if allowed == "any" else [name for name in found if name not in allowed]
    return f"{key} allows {', '.join(allowed) or 'none'}, it has {', '.join(more)}" if more else None


def _beyond(key: str, found: float, most: float | None) -> str | None:
    return None if most is None or found <= most else f"{key} is {most:g}, it has {found:,.7g}"


def _beyond_epsilon(run: Run, most: float | None) -> str | None:
    """With noise alone, nobody knows epsilon before all silos have said how many examples they have."""
    if most is None:
        return None
    if run.dp_epsilon == "none":
        got = "it adds no noise" if run.privacy is None else "it gives the noise and no dp_epsilon"
        return f"most_epsilon is {most:g}, {got}"
    return _beyond("most_epsilon", run.dp_epsilon, most)


def _below(key: str, found: int, least: int, option: str = "") -> str | None:
    return None if found >= least else f"{key} is {least}, it has {option}{found}"


class _Rule(NamedTuple):
    kind: Literal["words", "number", "size", "wire", "approve", "summaries"]
    words: str

    def holds(self, value: Any) -> bool:
        if self.kind == "approve":
            return value in ("by hand", "standing")
        if self.kind == "summaries":
            return value in ("never", "by hand", "standing")
        if self.kind == "number":
            return type(value) is int and value >= 1
        if self.kind == "size":
            return type(value) in (int, float) and 0 <= value < float("inf")
        listed = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
        return value == "any" or listed and (self.kind == "words" or set(value) <= set(get_args(Wire)))


_NUMBER = _Rule("number", "a whole number from 1")
_RULES: Mapping[str, _Rule] = {
    "methods": _Rule("words", '"any" or a list of methods'),
    "most_rounds": _NUMBER,
    "most_epochs": _NUMBER,
    "least_invited": _NUMBER,
    "least_quorum": _NUMBER,
    "most_megabytes": _Rule("size", "a number from 0"),
    "most_epsilon": _Rule("size", "a number from 0"),
    "metrics": _Rule("words", '"any" or a list of metrics'),
    "wire": _Rule("wire", f'"any" or a list of {", ".join(get_args(Wire))}'),
    "approve": _Rule("approve", '"by hand" or "standing"'),
    "summaries": _Rule("summaries", '"never", "by hand" or "standing"'),
    "least_count": _NUMBER,
    "least_mix": _NUMBER,
    "least_tested": _NUMBER,
}
