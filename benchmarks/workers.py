"""Workers: what a thread per core gains."""

from __future__ import annotations

import os

from amity.methods import build
from amity.models.cnn import CNN
from benchmarks.measure import Work, lazily
from benchmarks.rounds import CLASSES, random_silos, rounds


def cases(quick: bool = False) -> dict[str, Work]:
    """A FedAMP round of 8 silos, 300 images each, McMahan CNN: one worker against one per core."""
    silos, train = (2, 20) if quick else (8, 300)
    method = build("fedamp")

    def prepare(count: int) -> Work:
        data = random_silos(silos, train, train // 4)
        solver = method.solver._replace(batch=min(100, train))
        return rounds(method, lambda: CNN((1, 28, 28), CLASSES), data, solver=solver, workers=count)

    return {"1 worker": lazily(lambda: prepare(1)), "one per core": lazily(lambda: prepare(os.cpu_count() or 1))}
