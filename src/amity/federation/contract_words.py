"""A contract in plain words, for whoever has to agree to it: a run's, or one about a schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from amity.config.options import fields_of
from amity.config.robust import MEANS
from amity.config.run import Run
from amity.federation.contract_rules import ELSEWHERE
from amity.federation.run_contract import Leaves, RunContract, schema_hash
from amity.federation.schema_contract import SchemaContract
from amity.federation.signed import Contract

_TOLD_ABOVE = (
    "method",
    "model",
    "rounds",
    "epochs",
    "local_epochs_range",
    "participation",
    "ending",
    "safe",
    "robust",
    "min_mix",
    "min_count",
    "dp_noise",
    "dp_epsilon",
    "dp_clip",
    "dp_delta",
)
_NAMED = 12  # classes or columns that are told by name
_TITLES: tuple[tuple[Leaves, str], ...] = (
    ("tensor", "the model"),
    ("metric", "how good its model is, as numbers over all its test data"),
    ("count", "counts"),
)


def bytes_per_round(contract: RunContract) -> int:
    """Return what leaves a silo in one round, at most: as if everything left in each."""
    return sum(leaving.bytes for leaving in contract.leaves)


def bytes_in_total(contract: RunContract) -> int:
    """Return what leaves a silo in the whole run, at most; in its ending it still says how its model does."""
    return bytes_per_round(contract) * contract.options.all_rounds


def in_words(contract: Contract) -> str:
    """Return the contract as lines of plain words."""
    return "\n".join(_lines(contract) if isinstance(contract, RunContract) else _schema_lines(contract))


def _lines(contract: RunContract) -> Iterator[str]:
    run = contract.options
    yield f"run {contract.name} of the consortium {contract.consortium} (Amity {contract.amity})"
    yield f"contract {contract.hash()}"
    yield ""
    yield from _who(contract)
    yield ""
    yield f"what is done: {run.method}, model {run.model}, {_plural(run.rounds, 'round')}, {_epochs(run)}"
    yield from _ending(run)
    yield from _protection(run)
    if changed := list(_changed(run)):
        yield f"  not as usual: {', '.join(changed)}"
    yield from _privacy(contract)
    yield f"data needed: {_form(contract)}"
    if contract.data.schema is not None:
        yield from _schema(contract.data.schema)
    yield ""
    yield from _leaves(contract)


def _ending(run: Run) -> Iterator[str]:
    """What silos do by themselves after the last round."""
    if run.ending not in ("none", "default"):  # which a run file has resolved
        length = "to its own end" if run.ending == "auto" else f"for {_plural(int(run.ending), 'epoch')}"
        yield f"  then every silo goes on alone, {length}; nothing of that is sent"
    if run.safe:
        yield "  every silo trains alone as well, and keeps that model if it is clearly better; nothing of that is sent"


def _protection(run: Run) -> Iterator[str]:
    """How the server protects silos against bad uploads, and against showing one to another."""
    if run.min_mix > 1:
        yield f"  what a silo is sent mixes the models of at least {run.min_mix} others, or of none"
    if run.robust != "off":
        yield "  an upload that moved much further than those of most silos, or came before, is refused"
    if run.robust in MEANS:
        yield f"  models are averaged by the rule {run.robust}, which a few bad silos cannot carry away"


def _privacy(contract: RunContract) -> Iterator[str]:
    """What is promised about any one training example."""
    if not contract.privacy:
        return
    told = ", ".join(f"{key} = {value}" for key, value in contract.privacy.items())
    yield f"  privacy: differential privacy for each training example ({told})"
    yield "    noise is drawn at the silo, which stops when its epsilon is spent; scores are not covered"


def _few(run: Run) -> Iterator[str]:
    """What is not told, since it rests on too few examples."""
    least = run.min_count
    if least > 1:
        yield f"  but no score that rests on fewer than {least} test examples, or tells that fewer than {least} of them"
        yield f"  were right or wrong; by class, the same of each; of held-out examples, none of fewer than {least}"


def _schema_lines(contract: SchemaContract) -> Iterator[str]:
    yield f"schema {contract.name} of the consortium {contract.consortium} (Amity {contract.amity})"
    yield f"contract {contract.hash()}"
    yield ""
    yield f"invited: {_plural(len(contract.invited), 'silo')}: {', '.join(contract.invited)}"
    yield f"  all of them are needed; those that are missing are waited for, {_span(contract.limits.absence)} at most"
    yield ""
    yield "what is done: silos agree on what the columns of their tables are, so that all code them alike. No model is"
    yield "  trained. Each silo sums up its training rows, and the server makes one schema of all these summaries"
    labels = "quantities" if contract.labels is None else f"{len(contract.labels)} classes ({_some(contract.labels)})"
    yield f"data needed: tables whose column {contract.label!r} has the labels: {labels}"
    scaled = "by mean and deviation over all silos" if contract.scale == "auto" else "not at all"
    yield f"  numbers will be scaled {scaled}"
    yield f"  rows are divided with seed {contract.seed}, {contract.test_fraction:.0%} of them for testing"
    yield ""
    yield "what leaves a silo, once, for each column but the labels:"
    yield "  its name and place"
    yield "  how many rows have a number, a word or nothing, and how many mean yes where it is yes or no"
    yield "  the mean of its numbers and the sum of their squared deviations; of dates the same in days, with the"
    yield "  months and weekdays that occur"
    yield f"  words and codes that at least {contract.least_count} rows share, each with its number of rows, 50 at most"
    yield "  whether values are whole, few, all different, all the same, rising, or slips among dates"
    yield "  and the number of training rows"
    yield f"  of numbers, or words, that fewer than {contract.least_count} rows of a column have nothing is told"
    yield "  never a row, a rarer word, a smallest or largest number, a label, or anything about test rows"


def _schema(schema: Mapping[str, Any]) -> Iterator[str]:
    """How tables are coded: columns by kind. A column's own part is in the contract in full."""
    columns = schema["columns"]
    kinds = Counter(column["kind"] for column in columns)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    yield f"  tables are coded by the schema {schema_hash(schema)}: columns of kind {counted}"
    words = [(column["name"], column.get("categories", [])) for column in columns if column["kind"] == "category"]
    for name, categories in words[:_NAMED]:
        yield f"    {name}: {_some(tuple(categories))}"
    if len(words) > _NAMED:
        yield f"    and the words of {len(words) - _NAMED} columns more"


def _who(contract: RunContract) -> Iterator[str]:
    invited, limits = contract.invited, contract.limits
    yield f"invited: {_plural(len(invited), 'silo')}: {', '.join(invited)}"
    if contract.policy == "wait":
        yield f"  the run waits for silos that are missing, {_span(limits.absence)} at most"
        yield f"  no round counts with fewer than {contract.quorum} of them"
    else:
        yield f"  a round goes on without those that are missing, as long as {contract.quorum} are there"
    yield f"  it is a success only if each silo has taken part in {_plural(contract.least_rounds, 'round')}"
    yield f"  a turn may take {_span(limits.turn)}; after {_plural(limits.failures, 'restart')} the run is given up"


def _leaves(contract: RunContract) -> Iterator[str]:
    yield f"what leaves a silo, with numbers sent as {contract.wire}:"
    for kind, title in _TITLES:
        rows = [leaving for leaving in contract.leaves if leaving.kind == kind]
        if rows:
            yield f"  {title}"
        for row in rows:
            yield f"    {row.name:<18} {size(row.bytes):>10}  {row.words}"
        if kind == "metric":
            yield from _few(contract.options)
    yield "  and where something goes wrong, one line that says what; never an example, a prediction or a label"
    each, whole = bytes_per_round(contract), bytes_in_total(contract)
    yield f"  at most {size(each)} in a round, {size(whole)} in all {_plural(contract.options.rounds, 'round')}"


def _epochs(run: Run) -> str:
    span = run.who.local_epochs_range
    trained = _plural(run.epochs, "local epoch") if span is None else f"{span[0]} to {span[1]} local epochs"
    share = run.who.participation
    return f"{trained} each" if share == 1 else f"{trained} each, {share:.0%} of the silos in a round"


def _changed(run: Run) -> Iterator[str]:
    """Options that differ from their defaults, then the method's own."""
    for name, field in fields_of(Run).items():
        value: Any = getattr(run, name)
        if name not in _TOLD_ABOVE and name not in ELSEWHERE and value != field.default:
            yield f"{name} = {value}"
    for name, value in run.settings.items():
        yield f"{name} = {value}"


def _form(contract: RunContract) -> str:
    shape, labels, features, _ = contract.data
    example = "x".join(map(str, shape)) + (" numbers" if len(shape) == 1 else "")
    columns = "" if features is None else f" ({_some(features)})"
    wanted = "quantities" if labels is None else f"{len(labels)} classes ({_some(labels)})"
    return f"examples of {example}{columns}, labels: {wanted}"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def size(count: int) -> str:
    """Return a number of bytes as people say it."""
    for unit, length in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count} B"


def _span(seconds: int) -> str:
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= length and seconds % length == 0:
            return _plural(seconds // length, unit)
    return _plural(seconds, "second")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
