"""How often `--safe` is wrong: silos that are as well off either way, and silos with a harm of known size.

    python benchmarks/safe.py [--silos 100] [--studies digits-mlr digits-mlp quantities]

prints the tables of docs/ending.md. A silo holds out N of its 5 N training examples, as in a run, and two models come
to their own end without these (steps 1 and 2 of `amity.learn.ending`):

    equal    both are trained alone, with other random draws: whoever is sent on alone gains nothing by it
    harm     what one says is mixed with what a stranger says who calls classes by other names (quantities: whose labels
             belong to other examples), by as much as costs so many points on 1,200 examples that no silo has

and the rule says which of the two is delivered. `copies` is a whole run in place of a pair: ten silos with the same
examples, each shuffled, join FedAvg with an ending and --safe, and can learn nothing from each other.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

import amity
from amity import models
from amity.contract import Data, Model, Solver, Split, Turn
from amity.learn.ending import End, enough, log_odds, path
from amity.learn.streams import seed_of
from amity.learn.task import Task
from amity.methods.ended import SHORTEST, clearly_better
from amity.predicting.model import outputs_of
from benchmarks.verdicts import examples

HELD_OUT = (5, 10, 20, 50, 100)
HARMS = (5.0, 10.0, 20.0)  # points
EQUAL = 0.0
SHOWN = 10  # silos after which the tables are printed, so that one need not wait for the end
UNSEEN = 1200  # examples on which the true difference is measured
SOLVER = Solver("adam", 1e-3, batch=16)
SILOS, COPIED = 10, (10, 50)  # of a whole run, and the examples that each of them holds out

STUDIES = {"digits-mlr": ("digits", "mlr"), "digits-mlp": ("digits", "mlp"), "quantities": ("friedman", "mlp")}


class Case(NamedTuple):
    """One silo: the harm that was planted, and whether it was sent on alone."""

    study: str
    held_out: int
    harm: float
    alone: bool
    lost: float = 0.0  # points, on examples that no silo has, by being sent on alone; negative: won


class Drawn(NamedTuple):
    """The examples of one silo, and those that nobody has."""

    data: Data
    strange: Data  # the same, as a stranger labels them
    unseen: Split
    classes: int


def drawn(study: str, held_out: int, number: int) -> Drawn:
    """Draw a silo's examples."""
    x, y, classes = examples(STUDIES[study][0])
    draw = torch.Generator().manual_seed(1000 * number + held_out)
    rows = torch.randperm(len(y), generator=draw)[: UNSEEN + 5 * held_out]
    x, y = x[rows], y[rows] if classes else ((y[rows] - y.mean()) / y.std()).float()
    own = slice(UNSEEN, None)
    wrong = (y[own] + 1) % classes if classes else y[own].flip(0)
    return Drawn(
        _parted(x[own], y[own], held_out), _parted(x[own], wrong, held_out), Split(x[:UNSEEN], y[:UNSEEN]), classes
    )


def _parted(x: Tensor, y: Tensor, held_out: int) -> Data:
    return Data(Split(x[held_out:], y[held_out:]), Split(x[:held_out], y[:held_out]))


def ended(task: Task, start: Model, data: Data, seed: int) -> Model:
    """Return the model by which an ending is judged: the average over its path, by what held-out examples say."""
    assert data.val is not None
    turn = Turn(1, 1, SOLVER, data, lambda role, epoch: seed_of(seed, role, 0, 1, epoch))
    kept: list[Model] = []
    losses: list[float] = []
    for model in path(task, start, turn, SHORTEST, "alone"):
        kept.append(model)
        losses.append(float(task.example_losses(model, data.val).mean()))
        if enough(losses):
            break
    odds = torch.tensor([log_odds(loss, len(data.val.y), task.classes) for loss in losses], dtype=torch.float64)
    shares = odds.softmax(0).float()
    return {**start, "params": shares @ torch.stack([model["params"] for model in kept])}


def losses(out: Tensor, y: Tensor, classes: int) -> Tensor:
    """Return the loss of each example.  # [n]"""
    return F.cross_entropy(out, y, reduction="none") if classes else (out[:, 0] - y).square()


def points(out: Tensor, y: Tensor, classes: int) -> float:
    """Return accuracy or R2, in percent."""
    if classes:
        return 100 * float((out.argmax(1) == y).float().mean())
    return 100 * (1 - float(losses(out, y, classes).mean() / y.var(correction=0)))


def share_of_harm(own: Tensor, other: Tensor, y: Tensor, classes: int, aim: float) -> float | None:
    """Return the stranger's share with which a score falls to `aim`; None where even all of it does not do that."""
    if points(other, y, classes) > aim:
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        fallen = points(torch.lerp(own, other, middle), y, classes) <= aim
        low, high = (low, middle) if fallen else (middle, high)
    return high


def pairs(study: str, held_out: int, number: int) -> Iterator[Case]:
    """Yield what the rule says of a silo whose models are equally good, and of the same silo when it is harmed."""
    at = drawn(study, held_out, number)
    shape, judge = tuple(at.unseen.x.shape[1:]), at.data.val
    assert judge is not None
    task = Task(models.make(STUDIES[study][1], shape, at.classes or 1), shape, at.classes)
    start = task.init(torch.Generator().manual_seed(number))
    ends = [ended(task, start, data, seed) for data, seed in _trainings(at, number)]
    seen = [[outputs_of(task, model, x) for x in (judge.x, at.unseen.x)] for model in ends]
    (alone, alone_unseen), (again, again_unseen), (stranger, strange_unseen) = seen
    best = points(alone_unseen, at.unseen.y, at.classes)
    for harm in (EQUAL, *HARMS):
        found = share_of_harm(again_unseen, strange_unseen, at.unseen.y, at.classes, best - harm) if harm else 0.0
        if found is None:
            continue  # a silo that knows next to nothing alone cannot lose so much
        both = [losses(out, judge.y, at.classes) for out in (alone, torch.lerp(again, stranger, found))]
        joined = points(torch.lerp(again_unseen, strange_unseen, found), at.unseen.y, at.classes)
        sent = clearly_better(*(End({}, 0, each) for each in both))
        yield Case(study, held_out, harm, sent, joined - best)


def _trainings(at: Drawn, number: int) -> list[tuple[Data, int]]:
    """Return data and seed of three trainings: alone, alone once more, and the stranger's."""
    return [(at.data, 2 * number), (at.data, 2 * number + 1), (at.strange, 2 * number)]


def copies(study: str, held_out: int, number: int) -> Iterator[Case]:
    """Yield what becomes of silos that all hold the same examples, in a whole run."""
    at = drawn(study, held_out, number)
    assert at.data.val is not None
    x, y = torch.cat([at.data.train.x, at.data.val.x]), torch.cat([at.data.train.y, at.data.val.y])
    draw = torch.Generator().manual_seed(number)
    orders = [torch.randperm(len(y), generator=draw) for _ in range(SILOS)]
    tests = at.unseen.x[:20], at.unseen.y[:20]
    silos = amity.own_silos(
        {f"silo-{i}": (x[rows], y[rows], *tests) for i, rows in enumerate(orders)}, classes=at.classes
    )
    asked = amity.Run("fedavg", model=STUDIES[study][1], rounds=10, seed=number, ending="auto", safe=True, workers=1)
    holds = amity.run(asked, silos).lines[-1]["holds"]
    for words in holds.values():
        yield Case(f"copies, {study}", held_out, EQUAL, words.startswith("alone"))


def show(cases: list[Case]) -> None:
    """Print the tables."""
    rates: dict[tuple[str, float, int], list[bool]] = defaultdict(list)
    for case in cases:
        rates[case.study, case.harm, case.held_out].append(case.alone)
    print(f"| study | harm | {' | '.join(f'N = {n}' for n in HELD_OUT)} |\n|---|---|{'---|' * len(HELD_OUT)}")
    for study, harm in dict.fromkeys((case.study, case.harm) for case in sorted(cases)):
        cells = [_cell(rates.get((study, harm, n), [])) for n in HELD_OUT]
        print(f"| {study} | {f'{harm:g} points' if harm else 'none'} | {' | '.join(cells)} |")

    equal = [case for case in cases if case.harm == EQUAL and case.alone and not case.study.startswith("copies")]
    for study in dict.fromkeys(case.study for case in equal):
        lost = [[case.lost for case in equal if (case.study, case.held_out) == (study, n)] for n in HELD_OUT]
        means = [f"{sum(each) / len(each):+.2f} of {len(each)}" if each else "–" for each in lost]
        print(f"| {study} | points lost by those who were sent alone without harm | {' | '.join(means)} |")


def _cell(found: list[bool]) -> str:
    return f"{100 * sum(found) / len(found):.0f} % of {len(found)}" if found else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--silos", type=int, default=100, help="of each study and size")
    parser.add_argument("--runs", type=int, default=10, help="whole runs of each size")
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # a run's remarks on few test examples
    began, cases = time.time(), list[Case]()
    for number in range(asked.silos):
        for study in asked.studies:
            for held_out in HELD_OUT:
                cases += pairs(study, held_out, number)
        if number % SHOWN == SHOWN - 1 or number == asked.silos - 1:
            print(f"\n{number + 1} silos of each size, {time.time() - began:.0f} s\n")
            show(cases)
            sys.stdout.flush()
    for number in range(asked.runs):
        cases += [case for study in asked.studies for held_out in COPIED for case in copies(study, held_out, number)]
    if asked.runs:
        print(f"\nand {asked.runs} whole runs of each size, {time.time() - began:.0f} s\n")
        show(cases)


if __name__ == "__main__":
    main()
