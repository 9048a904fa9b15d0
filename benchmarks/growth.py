"""Growth: time of a round against silos, parameters and samples, with fitted exponents."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from amity.methods import build
from benchmarks.measure import Goal, Repeat, Work, lazily
from benchmarks.rounds import CLASSES, random_silos, rounds

AXES = ("silos", "parameters", "samples")


def cases(quick: bool = False) -> dict[str, Work]:
    """Training in a FedAMP round against silos (200 samples each), against parameters (20 silos, 200 samples) and
    against samples per silo (10 silos); small convolutional networks, batch 50, one epoch."""
    silos = (2, 4) if quick else (10, 30, 100, 300)
    widths = (1, 2) if quick else (4, 8, 16, 32)
    samples = (4, 8) if quick else (100, 300, 1000, 3000)
    few = 4 if quick else 200
    found: dict[str, Work] = {}
    for count in silos:
        found[f"{count:,} silos"] = lazily(partial(prepare, count, few, 8))
    for width in widths:
        found[f"{parameters(width):,} parameters"] = lazily(partial(prepare, 2 if quick else 20, few, width))
    for count in samples:
        found[f"{count:,} samples"] = lazily(partial(prepare, 2 if quick else 10, count, 8))
    return found


def baseline(case: str) -> None:
    """Every case is another size: none is a baseline."""


def prepare(silos: int, samples: int, width: int) -> Work:
    method = build("fedamp")
    solver = method.solver._replace(batch=50)
    data = random_silos(silos, samples, max(1, samples // 4))
    return rounds(method, lambda: network(width), data, solver=solver, timed="train")


def network(width: int) -> nn.Module:
    """Like the McMahan CNN, but narrow: its parameters and its work both grow with the square of the width."""
    return nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * width * 7 * 7, 8 * width),
        nn.ReLU(),
        nn.Linear(8 * width, CLASSES),
    )


def parameters(width: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in network(width).parameters())


def points(repeat: Repeat, axis: str, phases: Sequence[str]) -> dict[int, float]:
    """Where a repeat was measured along an axis, and the seconds of these phases there."""
    found = {}
    for case, sample in repeat.items():
        number, _, unit = case.partition(" ")
        if unit == axis:
            found[int(number.replace(",", ""))] = sum(sample.figures[phase] for phase in phases)
    return found


def exponent(values: dict[int, float]) -> float:
    """b of the power law y = a x^b through the points: least squares of the logarithms."""
    xs, ys = [math.log(x) for x in values], [math.log(y) for y in values.values()]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


PHASES = {"training": ("train",), "the server's step": ("download", "aggregate"), "evaluation": ("evaluate",)}


def along(axis: str, part: str) -> Callable[[Repeat], float]:
    return lambda repeat: exponent(points(repeat, axis, PHASES[part]))


GOALS = [
    Goal("exponent of training in silos", along("silos", "training"), at_least=0.9, at_most=1.1),
    *(Goal(f"exponent of training in {axis}", along(axis, "training")) for axis in ("parameters", "samples")),
    *(Goal(f"exponent of the server's step in {axis}", along(axis, "the server's step")) for axis in AXES[:2]),
    *(Goal(f"exponent of evaluation in {axis}", along(axis, "evaluation")) for axis in ("silos", "samples")),
]
