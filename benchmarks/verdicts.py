"""How often verdicts are wrong: federations in which joining does nothing, and silos with a harm of known size.

    python benchmarks/verdicts.py [--federations 40] [--studies digits fmnist-mlr ...]

prints the tables of docs/verdicts.md. Where joining does nothing every verdict is a false one:

    again     two trainings of `separate` that differ in their seed alone
    copies    all silos hold the same training examples, each shuffled: whatever a method exchanges, no silo learns
              anything that it does not know; each has test examples of its own

Where harm is planted, its true size is measured on thousands of examples that no silo has:

    mixture   a silo is given its own model mixed with a stranger's, trained on permuted labels, by as much as costs so
              many points
    permuted  some silos call classes by other names than all others; they join FedAvg, or FedAMP at a scale that mixes
              almost uniformly

All silos of a federation are tested on up to 1,000 examples; the first 25, 50, ... of these are smaller test sets.
Every case is judged by each metric, as if it were the main score of the run. `rare` has two classes, one of them a
tenth of all examples: where people use other metrics than accuracy.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import amity
from amity.data.source import scale_pixels
from amity.worth.contents import Score
from amity.worth.shares import Answers
from benchmarks.verdict_tables import Case, points_of, seen, show

SILOS = 10
STRANGERS = 3  # silos that permute labels
HARMS = (2.0, 5.0, 10.0, 20.0)  # points
METHODS = ("fedavg", "fedamp", "heurfedamp", "pfedatt")
RARE = 2  # pullovers, which coats and shirts resemble


class Study(NamedTuple):
    """Data, a model and how much each silo trains on."""

    data: str
    model: str
    train: int
    rounds: int = 10
    tests: int = 1000  # for each silo
    hold_out: int = 5000


STUDIES = {
    "digits": Study("digits", "mlp", 60, tests=50, hold_out=1000),
    "fmnist-mlr": Study("fmnist", "mlr", 100),
    "fmnist-mlp": Study("fmnist", "mlp", 100),
    "fmnist-mlp-400": Study("fmnist", "mlp", 400),
    "quantities": Study("friedman", "mlp", 100, rounds=40),
    "rare": Study("rare", "mlp", 400),
}

SCORES: dict[bool, tuple[Score, ...]] = {
    True: ("accuracy", "balanced_accuracy", "macro_f1", "auroc"),
    False: ("r2", "rmse", "mae"),
}
"""What models are compared by, where labels are classes and where they are not."""


class Pool(NamedTuple):
    """All examples of a study, shuffled, in parts that have none in common."""

    x: Tensor
    y: Tensor
    classes: int  # 0: quantities
    tests: list[slice]  # by silo
    hold_out: slice
    rest: int  # where training examples begin


@cache
def examples(data: str) -> tuple[Tensor, Tensor, int]:
    """Return all examples of a data set."""
    if data == "friedman":
        rng = np.random.default_rng(1)
        u = rng.random((40_000, 10))
        y = 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
        return torch.tensor(u, dtype=torch.float32), torch.tensor(y + rng.normal(scale=2, size=len(y))), 0
    if data == "rare":  # one class of ten against all others
        pictures, labels, _ = examples("fmnist")
        return pictures, (labels == RARE).long(), 2
    source = amity.load(data)
    x = torch.cat([scale_pixels(source.train.x), scale_pixels(source.test.x)])
    return x, torch.cat([source.train.y, source.test.y]), source.classes


def pool_of(study: Study, federation: int) -> Pool:
    x, y, classes = examples(study.data)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(federation))
    tests = [slice(silo * study.tests, (silo + 1) * study.tests) for silo in range(SILOS)]
    end = SILOS * study.tests + study.hold_out
    size = end + SILOS * study.train
    order = order[: min(size, len(order))]
    return Pool(x[order], y[order], classes, tests, slice(SILOS * study.tests, end), end)


def run(study: Study, method: str, seed: int, silos: amity.Silos) -> list[nn.Module]:
    """Return every silo's delivered model."""
    asked = amity.Run(
        method, model=study.model, rounds=study.rounds, epochs=5, seed=seed, evaluate_every=study.rounds, workers=1
    )
    result = amity.run(asked, silos)
    return [result.model(silo.name) for silo in silos.silos]


def federation_of(pool: Pool, parts: Sequence[tuple[Tensor, Tensor]]) -> amity.Silos:
    few = pool.tests[0].start, pool.tests[0].start + 10  # what the run itself tests on does not matter here
    test = pool.x[slice(*few)], pool.y[slice(*few)]
    return amity.own_silos({f"silo-{i}": (*part, *test) for i, part in enumerate(parts)}, classes=pool.classes)


def outputs(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = model(x)
    return out


def answers(out: Tensor, y: Tensor, classes: int) -> Answers:
    """Return what a model says about each example."""
    if not classes:
        return Answers(y.numpy(), out[:, 0].double().numpy())
    return Answers(y.numpy(), out.argmax(1).numpy(), out.softmax(1).numpy())


def nothing(name: str, number: int) -> Iterator[Case]:
    """Yield cases of a federation in which all silos hold copies of the same training examples."""
    study = STUDIES[name]
    pool = pool_of(study, number)
    draw = torch.Generator().manual_seed(1000 + number)
    rows = [pool.rest + torch.randperm(study.train, generator=draw) for _ in range(SILOS)]
    silos = federation_of(pool, [(pool.x[own], pool.y[own]) for own in rows])
    alone = run(study, "separate", number, silos)
    again = run(study, "separate", number + 100_000, silos)
    yield from compared("again", name, number, "separate", pool, again, alone)
    for method in METHODS:
        yield from compared("copies", name, number, method, pool, run(study, method, number, silos), alone)


def compared(
    kind: str,
    name: str,
    number: int,
    method: str,
    pool: Pool,
    ours: Sequence[nn.Module],
    alone: Sequence[nn.Module],
    labels: Sequence[Tensor] | None = None,
) -> Iterator[Case]:
    """Yield a case for each silo. `labels`: how each silo calls the classes, where it is not as all others do."""
    for silo, (first, second) in enumerate(zip(ours, alone, strict=True)):
        named = pool.y if labels is None else labels[silo]
        test, held = pool.tests[silo], pool.hold_out
        found = [
            [answers(outputs(model, pool.x[part]), named[part], pool.classes) for part in (test, held)]
            for model in (first, second)
        ]
        for score in SCORES[pool.classes > 0]:
            points = points_of(found[0][1], found[1][1], score)
            yield Case(kind, name, number, method, seen(found[0][0], found[1][0], score), points, score)


def mixtures(name: str, number: int) -> Iterator[Case]:
    """Yield cases in which a silo's model is mixed with a stranger's until it costs so many points."""
    study = STUDIES[name]
    pool = pool_of(study, number)
    rows = torch.arange(pool.rest, pool.rest + study.train)
    wrong = torch.flip(pool.y[rows], (0,)) if not pool.classes else (pool.y[rows] + 1) % pool.classes
    honest = federation_of(pool, [(pool.x[rows], pool.y[rows])] * 2)
    stranger = federation_of(pool, [(pool.x[rows], wrong)] * 2)
    alone = run(study, "separate", number, honest)[0]
    again = run(study, "separate", number + 100_000, honest)[0]
    other = run(study, "separate", number, stranger)[0]
    each = {key: outputs(model, pool.x) for key, model in (("alone", alone), ("own", again), ("other", other))}

    def said(out: Tensor, part: slice) -> Answers:
        return answers(out[part], pool.y[part], pool.classes)

    def mixed(share: float) -> Tensor:
        return (1 - share) * each["own"] + share * each["other"]

    def points(share: float, score: Score) -> float:
        held = pool.hold_out
        return points_of(said(mixed(share), held), said(each["alone"], held), score)

    for score, harm in itertools.product(SCORES[pool.classes > 0], HARMS):
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if points(middle, score) > -harm else (low, middle)
        if -(planted := points(high, score)) < harm - 1:
            continue  # a whole stranger does not cost so much
        mix = mixed(high)
        for test in pool.tests:
            at_silo = seen(said(mix, test), said(each["alone"], test), score)
            yield Case("mixture", name, number, f"{harm:g}", at_silo, planted, score)


def permuted(name: str, number: int) -> Iterator[Case]:
    """Yield cases of silos that permute some classes' names, and join all others."""
    study = STUDIES[name]
    pool = pool_of(study, number)
    if pool.classes < 5 or len(pool.y) < pool.rest + SILOS * study.train:
        return
    draw = np.random.default_rng(number)
    labels = []
    for silo in range(SILOS):
        names = torch.arange(pool.classes)
        if silo < STRANGERS:
            some = draw.choice(pool.classes, size=(2, 3, 5)[silo % 3], replace=False)
            names[torch.tensor(some)] = torch.tensor(np.roll(some, 1))
        labels.append(names[pool.y])
    rows = [torch.arange(pool.rest + i * study.train, pool.rest + (i + 1) * study.train) for i in range(SILOS)]
    silos = federation_of(pool, [(pool.x[own], named[own]) for own, named in zip(rows, labels, strict=True)])
    alone = run(study, "separate", number, silos)
    for method in ("fedavg", "fedamp"):
        yield from compared("permuted", name, number, method, pool, run(study, method, number, silos), alone, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--federations", type=int, default=40, help="of each study")
    parser.add_argument("--first", type=int, default=0, help="number of the first federation: others, others' data")
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # a setting's remarks on its few test examples
    began, cases = time.time(), list[Case]()
    for name in asked.studies:
        for number in range(asked.first, asked.first + asked.federations):
            for plant in (nothing, mixtures, permuted):
                cases += plant(name, number)
        print(f"{name}: {asked.federations} federations, {time.time() - began:.0f} s", flush=True)
    show(cases)


if __name__ == "__main__":
    main()
