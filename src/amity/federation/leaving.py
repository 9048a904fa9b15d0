"""All that leaves a silo in a run, by name and size, known before anybody is asked to take part.

It follows from the plan: the tensors from what the method declares that it uploads, which is also all that the server
admits; metrics and counts from the types of the messages. The sizes of the silos' data do not matter to it. Where fewer
silos come than were invited, some methods send less, never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Generator, Tensor

from amity.config.run import Run
from amity.contract import Kind, Kinds, State
from amity.federation.admission import expected
from amity.federation.announced import bytes_on_wire
from amity.federation.plan import Plan
from amity.federation.run_contract import Leaving, Wire
from amity.learn.streams import stream
from amity.metric import METRICS

TENSORS: Mapping[str, str] = {
    "params": "the numbers of its model after its turn",
    "cores": "the numbers of its model after its turn",
    "buffers": "running means of the layers of its model that normalise",
    "counts": "how many batches these layers have seen",
    "control": "the change of its control variate, as large as its model",
    "steps": "how many steps it has trained",
    "ids": "the numbers of the silos whose models it was sent",
    "scores": "how much each of these models gains on its validation data",
    "wanted": "the numbers of the silos whose models it asks for",
    "cluster": "the number of the model that fits its training data best",
    "held_out": "the loss, on the examples that it holds out, of the model that it was sent",
}
"""What the tensors of Amity's own methods are; those of others are told by name."""

NUMBER = 8  # bytes of a metric or a count


def leaving(plan: Plan, run: Run, wire: Wire = "float32") -> tuple[Leaving, ...]:
    """Return what leaves each silo in this run, with floats sent in this type."""
    return (*_tensors(_uploads(plan), wire), *_metrics(plan, run), *_counts())


def _uploads(plan: Plan) -> Kinds:
    """Return the largest tensors that an upload has, with all silos there.

    Some methods send more once the server has heard of everybody. So the first round is made up, with blank uploads,
    and what the second one sends counts too.
    """
    method, task, fed, solver, *_ = plan
    who = torch.arange(fed.clients)
    server = method.init_server(task, fed)
    largest: dict[str, Kind] = {}
    for round in (1, 2):

        def rng(role: str, key: int, round: int = round) -> Generator:
            return stream(fed.seed, role, key, round)

        down = method.download(server, who, round, rng)
        kinds = expected(method, task, fed, solver, down, who, round)
        for key, kind in kinds.items():
            largest[key] = max(largest.get(key, kind), kind, key=lambda one: prod(one.shape))
        if round == 1:
            server = method.aggregate(server, who, _blank(kinds, who), round)
    return largest


def _blank(kinds: Kinds, who: Tensor) -> State:
    return {key: torch.zeros(len(who), *kind.shape, dtype=kind.dtype) for key, kind in kinds.items()}


def _tensors(kinds: Kinds, wire: Wire) -> list[Leaving]:
    found = []
    for key, kind in kinds.items():
        count = prod(kind.shape)
        if not count:
            continue
        width, floating = kind.dtype.itemsize, kind.dtype.is_floating_point
        sent, kept = bytes_on_wire(count, width, floating, wire), str(kind.dtype).removeprefix("torch.")
        numbers = f"{count:,} x {kept}" + (f" sent as {wire}" if sent < count * width else "")
        words = f"{TENSORS.get(key, 'part of its upload')}: {numbers}; in every round that it takes part in"
        found.append(Leaving(key, "tensor", sent, words))
    return found


def _metrics(plan: Plan, run: Run) -> list[Leaving]:
    main = plan.task.metric
    told = [metric for metric in METRICS.values() if metric.labels == main.labels]
    when = "whenever models are evaluated"
    found = [Leaving(one.key, "metric", NUMBER, f"{one.title} on its own test data; {when}") for one in told]
    found.append(Leaving("loss", "metric", NUMBER, f"the loss, summed over its own test data; {when}"))
    found.append(Leaving("val", "metric", NUMBER, f"{main.title} on its validation data, where it has some; {when}"))
    if run.train_loss:
        found.append(Leaving("train_loss", "metric", NUMBER, f"the mean loss on its training data; {when}"))
    return found


def _counts() -> list[Leaving]:
    return [
        Leaving("size", "count", NUMBER, "how many training examples it has; once, before round 1"),
        Leaving("validates", "count", NUMBER, "whether it has validation data; once, before round 1"),
        Leaving("examples", "count", NUMBER, "how many test examples it has; whenever models are evaluated"),
        Leaving("failed", "count", NUMBER, "whether its model gives numbers that are not finite; with the metrics"),
        Leaving("withheld", "count", NUMBER, "whether it withholds any of the metrics; with them"),
        Leaving("seconds", "count", NUMBER, "how long its turn took; in every round that it takes part in"),
    ]
