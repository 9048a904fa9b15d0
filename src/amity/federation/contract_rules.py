"""What a run contract must be beyond its types: names that can be folders, numbers in their range, a run that makes
sense between silos. Reasons for a refusal are raised as ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amity.config.options import fields_of
from amity.config.references import REFERENCES
from amity.config.run import Run

if TYPE_CHECKING:
    from amity.federation.run_contract import DataForm, RunContract
    from amity.federation.schema_contract import SchemaContract

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
"""Names of runs and silos, which become folders."""

FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
"""A model of the consortium's own: module:function, of a package that is installed at every silo."""

LAYOUT = re.compile(r"[0-9a-f]{16,64}")

ELSEWHERE: Mapping[str, str] = {
    "data": "each silo names its own data in silo.toml",
    "setting": "the silos are the members themselves, no data are dealt to them",
    "clients": "the number of silos follows from `invited`",
    "labels": "what labels are stands in [data]",
    "label": "each silo names the column of its labels in silo.toml",
    "drop_column": "each silo names the columns that it leaves out in silo.toml",
    "schema": "the schema of tables stands in [data]",
    "scale": "the schema in [data] says how numbers are scaled",
    "init_from": "no run names a file on somebody's machine",
    "workers": "each silo decides about its own machine in silo.toml",
    "engine": "between silos there is one engine",
    "ray_address": "between silos there is no Ray cluster",
    "encrypted": "encrypted attention is there for simulations alone",
    "matrix_dir": "no run names a folder on somebody's machine",
    "device": "each silo decides about its own machine in silo.toml",
    "drop": "between silos nobody needs to play at dropping out",
    "drop_phase": "between silos nobody needs to play at dropping out",
    "checkpoint_every": "between silos every round is saved",
}
"""Options of `Run` that have no place in a contract, and why; they keep their defaults there."""


def check(contract: RunContract) -> None:
    """Refuse a contract that no silo could keep to, or that names anything on somebody's machine."""
    check_named(contract)
    if not LAYOUT.fullmatch(contract.layout):
        raise ValueError(f"layout is a hash, got {contract.layout!r:.60}")
    if not 1 <= contract.quorum <= len(contract.invited):
        raise ValueError(f"quorum is 1 to {len(contract.invited)}, the number of silos invited, got {contract.quorum}")
    if contract.policy not in ("wait", "quorum"):
        raise ValueError(f"policy is wait or quorum, got {contract.policy!r:.60}")
    _check_form(contract.data)
    options = options_of(contract.run)
    if (problem := too_few_to_mix(options, contract.quorum)) is not None:
        raise ValueError(problem)
    promised = {} if options.privacy is None else options.privacy.words()
    if contract.privacy != promised:
        raise ValueError(
            f"privacy is what its run asks for, {promised or 'nothing'}, got {dict(contract.privacy)!r:.80}"
        )
    if not 0 <= contract.least_rounds <= options.rounds:
        raise ValueError(f"least_rounds is 0 to {options.rounds}, the run's rounds, got {contract.least_rounds}")
    if contract.wire not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"wire is float32, float16 or bfloat16, got {contract.wire!r:.60}")
    for leaving in contract.leaves:
        if leaving.kind not in ("tensor", "metric", "count") or leaving.bytes < 0 or not leaving.name:
            raise ValueError(f"what leaves is a tensor, a metric or a count with a name, got {leaving.name!r:.60}")
    _distinct([leaving.name for leaving in contract.leaves], "what leaves")


def check_named(contract: RunContract | SchemaContract) -> None:
    """Refuse names that cannot be folders or come twice, and limits that nothing could keep to."""
    if not NAME.fullmatch(contract.name):
        raise ValueError(f"a run's name is letters, digits, - and _, got {contract.name!r:.60}")
    if not 1 <= len(contract.consortium) <= 80 or not contract.amity:
        raise ValueError("a consortium's name has 1 to 80 letters, and the version of Amity is said")
    for name in contract.invited:
        if not NAME.fullmatch(name):
            raise ValueError(f"a silo's name is letters, digits, - and _, got {name!r:.60}")
    _distinct(contract.invited, "invited")
    if min(contract.limits) < 1:
        raise ValueError(f"limits are at least 1, got {list(contract.limits)}")


def options_of(table: Mapping[str, Any]) -> Run:
    """Return the run that a table describes, whole: every option is there, and those that each silo decides by itself
    keep their defaults."""
    known = fields_of(Run)
    if wrong := sorted(table.keys() ^ {*known, "set"}):
        raise ValueError(
            f"its run has not exactly the options that this version knows, look at {', '.join(wrong)[:200]}"
        )
    for name, why in ELSEWHERE.items():
        if table[name] != known[name].default:
            raise ValueError(f"its run sets {name}, which has no place between silos: {why}")
    settings = table["set"]
    if not isinstance(settings, Mapping) or not all(
        isinstance(item, (str, bool, int, float)) for item in settings.values()
    ):
        raise ValueError("the method's own options are numbers and words by name")
    run = Run(**{name: value for name, value in table.items() if name != "set"}, settings=dict(settings))
    if run.method == "pooled":
        raise ValueError("pooled needs all data in one place, which is what silos do not do")
    if ":" in run.model and not FACTORY.fullmatch(run.model):
        raise ValueError(f"a model of your own is named module:function, got {run.model!r:.60}")
    return run


def too_few_to_mix(run: Run, quorum: int) -> str | None:
    """Return why rounds of so many silos cannot mix as many models as their run asks for; None where they can.

    With fewer uploads nothing is averaged, so such a round would come to nothing.
    """
    if run.min_mix == 1 or run.method in REFERENCES or quorum > run.min_mix:
        return None
    return f"min_mix {run.min_mix} needs rounds of at least {run.min_mix + 1} silos, the quorum is {quorum}"


def _check_form(data: DataForm) -> None:
    if not data.shape or min(data.shape) < 1:
        raise ValueError(f"shape is a list of whole numbers from 1, got {list(data.shape)}")
    if data.labels is not None:
        if len(data.labels) < 2:
            raise ValueError(f"there are at least 2 classes, got {len(data.labels)}")
        _distinct(data.labels, "labels")
    if data.features is not None:
        if data.shape != (len(data.features),):
            raise ValueError(f"shape is [{len(data.features)}], the number of features, got {list(data.shape)}")
        _distinct(data.features, "features")
    elif data.schema is not None:
        raise ValueError("where there is a schema, its features are named")
    if data.schema is not None:
        _check_schema(data.schema)


def _check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse what is no schema at first sight. Silos look at it in full before they code a table by it."""
    columns = schema.get("columns")
    if not isinstance(columns, list) or not all(isinstance(column, Mapping) for column in columns):
        raise ValueError("its schema has a list of columns")
    for column in columns:
        words = column.get("categories", [])
        if not isinstance(column.get("name"), str) or not isinstance(column.get("kind"), str):
            raise ValueError("each column of its schema has a name and a kind")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("categories are words")


def _distinct(names: Sequence[str], what: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"{what} names {twice!r:.60} twice")
