"""A program for test_footprint.py: the most bytes of tensors that are alive in a run of each method, and the estimate.

A process of its own: threads and caches that other tests have left behind make tensors, and collect garbage, when they
like.
"""

from __future__ import annotations

import gc
import json

import torch
from engines.wide_plans import ON, plan_of
from small import silos
from torch import Tensor

from amity.engines.local import footprint
from amity.engines.local.footprint import estimate
from amity.engines.local.simulate import simulate
from amity.federation.events import Event
from amity.methods import METHODS


def alive() -> int:
    """Bytes behind all tensors that Python knows."""
    gc.collect()
    found: dict[int, int] = {}
    for one in gc.get_objects():
        if type(one) is Tensor and one.device.type == "cpu" and one.layout is torch.strided:
            storage = one.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def measured(name: str) -> dict[str, int]:
    """Run three rounds, and look when all have trained: the states before the round and after it are there then."""
    plan, at, most = plan_of(name, ON), silos(), 0
    before = alive()

    def listen(event: Event) -> None:
        nonlocal most
        if event.what == "trained" and event.done == event.total:  # nothing is committed yet, and nobody is at work
            most = max(most, alive() - before)

    kept = None
    for report in simulate(plan.method, ON, at, *plan[2:5], workers=1, events=listen, clouds="last"):
        kept = report.progress  # as a run does, for an interrupt
    assert kept is not None and kept.round == 3
    found = estimate(plan, at, engine="loop", workers=1)
    assert found is not None
    waiting = report.bytes_up // len(report.took_part)  # an upload that no longer waits
    return {"most": most, "estimated": found.total, "waiting": waiting}


def main() -> None:
    torch.set_num_threads(1)
    footprint._HOLES, footprint._KEPT = 1.0, 0  # tensors alone: what the C library keeps beside them is not looked at
    gc.disable()  # it is collected when somebody looks
    gc.freeze()
    print(json.dumps({name: measured(name) for name in METHODS}))


main()
