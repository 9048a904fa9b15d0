"""Small federations for tests: five unequal silos, models of a dozen numbers, milliseconds per run, float64.

from small import build, flat, run, silos, task
rounds = run("fedamp", settings={"sigma": 1.0}, rounds=3)
rounds[-1].personal(0)["params"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from amity.config import Participation
from amity.contract import Data, Federation, Method, Model, Progress, Round, Silo, Solver, Split, State, Turn
from amity.engines.simulate import federation_of, personal_models, simulate
from amity.engines.stacked import Engine
from amity.methods import build
from amity.streams import seed_of, stream
from amity.task import Task

FEATURES, CLASSES = 3, 3
SIZES = (7, 15, 9, 12, 10)  # training examples; their greatest common divisor is 1
GROUPS = (0, 1, 0, 1, 0)  # silos of a group label alike
NAMES = ("ash", "birch", "cedar", "elm", "fir")


def linear() -> nn.Module:
    return nn.Linear(FEATURES, CLASSES)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, CLASSES))


def batchnorm() -> nn.Module:
    """No bias before BatchNorm: its gradient is zero up to rounding, which Adam magnifies."""
    return nn.Sequential(nn.Linear(FEATURES, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, CLASSES))


def task(make: Callable[[], nn.Module] = linear, *, start: Mapping[str, Tensor] | None = None) -> Task:
    """A task on these silos; the same one for the same model, since a task has no state of its own."""
    return _task(make) if start is None else fresh_task(make, start=start)


@cache
def _task(make: Callable[[], nn.Module]) -> Task:
    return fresh_task(make)


def fresh_task(make: Callable[[], nn.Module] = linear, *, start: Mapping[str, Tensor] | None = None) -> Task:
    return Task(make, (FEATURES,), CLASSES, dtype=torch.float64, start=start)


def silo(name: str, size: int, group: int = 0, *, tests: int = 6, seed: int = 0) -> Silo:
    """One silo. Inputs depend on the name, labels on the inputs and on a rule that the group shares."""
    rng = stream(seed, f"silo/{name}")
    x = torch.randn(size + tests, FEATURES, generator=rng, dtype=torch.float64)
    rule = torch.randn(FEATURES, CLASSES, generator=stream(seed, "rule", group), dtype=torch.float64)
    noise = torch.randn(size + tests, CLASSES, generator=rng, dtype=torch.float64)
    y = (x @ rule + 0.5 * noise).argmax(1)
    return Silo(name, Split(x[:size], y[:size]), Split(x[size:], y[size:]), group=group)


def silos(count: int = len(SIZES), seed: int = 0) -> list[Silo]:
    """Five silos of two groups (or fewer, or more: the lists repeat, names stay apart)."""
    places = [divmod(i, len(SIZES)) for i in range(count)]
    return [silo(NAMES[i] + ("" if lap == 0 else str(lap)), SIZES[i], GROUPS[i], seed=seed) for lap, i in places]


def relabelled(one: Silo) -> Silo:
    """The same inputs, other labels."""
    return one._replace(train=Split(one.train.x, (one.train.y + 1) % CLASSES))


def solver_of(method: Method, **changes: Any) -> Solver:
    """The method's own solver, made fit for a dozen examples."""
    usual = {"rate": 0.05, "batch": 8}
    return method.solver._replace(**{**usual, **changes})


class Seen(Round):
    """A round and, when they are asked for, the personal models after it."""

    recipe: Callable[[], list[Model]]

    @cached_property
    def models(self) -> list[Model]:
        return self.recipe()

    def personal(self, client: int) -> Model:
        return self.models[client]


def run(
    method: str | Method,
    *,
    settings: Mapping[str, Any] | None = None,
    on: Task | None = None,
    at: Sequence[Silo] | None = None,
    rounds: int = 3,
    seed: int = 1,
    epochs: int = 2,
    solver: Solver | None = None,
    workers: int = 1,
    engine: Engine | Callable[..., Iterator[Round]] = "loop",
    start: Progress | None = None,
    matrix_dir: Path | None = None,
    stop_after: int | None = None,
    evaluate_every: int = 1,
    **participation: Any,
) -> list[Seen]:
    """The rounds of a run; `stop_after` leaves it early, though the federation is planned for all rounds."""
    method = build(method, settings) if isinstance(method, str) else method
    at = silos() if at is None else at
    on = task() if on is None else on
    fed = federation_of(at, rounds, seed)
    solver = solver_of(method) if solver is None else solver
    rule = Participation(epochs=epochs, **participation)
    how: Any = {"workers": workers, "engine": engine} if isinstance(engine, str) else {"workers": workers}
    begin = partial(simulate, matrix_dir=matrix_dir) if isinstance(engine, str) else engine
    steps = begin(method, on, at, fed, solver, rule, start=start, evaluate_every=evaluate_every, **how)
    out = []
    for report in steps:
        seen = Seen(*report)
        seen.recipe = partial(personal_models, method, on, at, fed, solver, rule, report.progress, **how)
        out.append(seen)
        if report.round == stop_after:
            break
    steps.close()  # type: ignore[attr-defined]
    return out


def flat(report: Seen) -> Tensor:
    """Every client's personal parameters after a round.  # [m, d]"""
    return torch.stack([model["params"] for model in report.models])


def turn_of(
    fed: Federation, at: Sequence[Silo], client: int, solver: Solver, *, round: int = 1, epochs: int = 1
) -> Turn:
    """A client's turn, keyed as the engine keys it."""
    one = at[client]
    key = int(fed.keys[client])
    return Turn(
        round, epochs, solver, Data(one.train, one.val), lambda role, epoch: seed_of(fed.seed, role, key, round, epoch)
    )


def copied(state: State) -> State:
    return {key: value.clone() for key, value in state.items()}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Equal keys, types, shapes and values, to the last bit; NaN equals NaN."""
    return one.keys() == other.keys() and all(
        one[key].dtype == other[key].dtype
        and one[key].shape == other[key].shape
        and torch.equal(one[key].nan_to_num(nan=1e300), other[key].nan_to_num(nan=1e300))
        for key in one
    )


def near(one: Tensor, other: Tensor, tolerance: float = 1e-10) -> bool:
    """Equal up to the order in which sums were rounded."""
    return one.shape == other.shape and bool(((one - other).abs() <= tolerance * (1 + other.abs())).all())


# Least squares: strongly convex, with closed forms


def half_square(out: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (out[:, 0] - y).square().mean()


def squares(start: list[float]) -> Task:
    """Least squares in as many unknowns: F_i(w) = mean (w x - y)^2 / 2."""
    first = {"weight": torch.tensor([start])}
    size = len(start)
    make: Callable[[], nn.Module] = lambda: nn.Linear(size, 1, bias=False)  # noqa: E731
    return Task(make, (size,), 1, loss=half_square, dtype=torch.float64, start=first)


def least(name: str, x: list[list[float]], y: list[int]) -> Silo:
    data = Split(torch.tensor(x, dtype=torch.float64), torch.tensor(y))
    return Silo(name, data, data)


PAIR = [least("a", [[1.0]], [1]), least("b", [[2.0]], [4])]  # F_a' = w - 1, F_b' = 4 w - 8
THREE = [  # strongly convex, with different Hessians and different optima
    least("a", [[1.0, 0.0], [0.5, 1.0]], [3, -1]),
    least("b", [[1.5, 0.5], [0.0, 1.0]], [-2, 2]),
    least("c", [[1.0, -1.0], [1.0, 1.0], [0.0, 0.5]], [1, 4, -3]),
]


def quadratic(features: int) -> Task:
    """F_i(w) = |X w - y|^2 / (2 n), from 0."""
    start = {"weight": torch.zeros(1, features)}
    shape = (features,)
    return Task(
        lambda: nn.Linear(features, 1, bias=False), shape, 1, loss=half_square, dtype=torch.float64, start=start
    )


def own(name: str, x: Tensor, y: Tensor) -> Silo:
    return Silo(name, Split(x, y), Split(x, y))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
