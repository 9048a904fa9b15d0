"""The runs of a probe: every silo alone, and together in two ways, each to its own end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from amity.config.references import ALONE
from amity.config.run import Run
from amity.data import Silos
from amity.jobs import Job, run_each
from amity.left_out import PARTS, without
from amity.metric import METRICS
from amity.resolve import Builds, alone_of
from amity.worth.paired import Array

TOGETHER = ("accord", "fedavg")
"""The methods that are tried; where they are level, the first is proposed."""

FEW = 4000
"""Training examples of all silos, up to which every part is left out once; with more, one part says enough."""

Tell = Callable[[str], None]


class Said(NamedTuple):
    """What a silo's models said about the examples that were left out, over all folds."""

    each: Array  # [n] right or wrong, or the error
    truth: Array  # [n]


Outcomes = dict[str, dict[str, Said]]
"""By method and silo."""


def probed(run: Run, silos: Silos, folds: int, budget: float, model: Builds | None, tell: Tell) -> tuple[Outcomes, int]:
    """Return what all models said, and how many parts were left out; none begins after `budget` seconds."""
    runs = candidates(run)
    found: dict[str, dict[str, list[Said]]] = {one.method: defaultdict(list) for one in runs}
    until = time.monotonic() + budget
    done = 0
    while done < folds and (not done or time.monotonic() < until):
        seen = without(silos, done, run.seed)
        jobs = [Job(one, None) for one in runs]
        for result in run_each(jobs, seen, model=model, note=tell):
            told = result.summary
            score = METRICS[told["score"]].text(result.best)
            tell(f"part {done + 1} of {folds}: {told['method']} {score}")
            for silo in seen.silos:
                said = Said(result.record.predictions[silo.name]["delivered"], silo.test.y.numpy())
                found[told["method"]][silo.name].append(said)
        done += 1
    return {method: {silo: _joined(parts) for silo, parts in of.items()} for method, of in found.items()}, done


def candidates(run: Run) -> list[Run]:
    """Return the runs to compare: alone first. All go on to their own end, unless the run says otherwise."""
    ending = "auto" if run.ending == "default" else run.ending
    together = [replace(run, method=name, settings={}, ending=ending, safe=False) for name in TOGETHER]
    alone = alone_of(together[0])
    assert alone.method == ALONE
    return [alone, *together]


def folds_of(silos: Silos) -> int:
    """Return how many parts are left out, one after the other, where nobody says how many."""
    return PARTS if sum(silos.sizes) <= FEW else 1


def _joined(parts: list[Said]) -> Said:
    return Said(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
