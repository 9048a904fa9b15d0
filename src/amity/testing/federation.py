"""Small federations for tests: five unequal silos, models of a dozen numbers, milliseconds per run, float64.

>>> rounds = run("fedamp", settings={"sigma": 1.0}, rounds=3)
>>> tuple(rounds[-1].personal(0)["params"].shape)
(12,)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from amity.config.participation import Participation
from amity.contract import Data, Federation, Method, Model, Silo, Solver, Split, State, Turn
from amity.engines.local.stacked import Engine, carrier_of
from amity.engines.memory import Memory
from amity.federation.carrier import Carrier
from amity.federation.plan import Plan, federation_of
from amity.federation.reports import Progress, Round
from amity.federation.resume import Saved, begin
from amity.learn.streams import seed_of, stream
from amity.learn.task import Task
from amity.methods import build

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


def forget_tasks() -> None:
    """Make the tasks that are shared anew."""
    _task.cache_clear()


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


class States(NamedTuple):
    """The server's state and every silo's."""

    server: State
    clients: Sequence[State]
    round: int = 0

    @property
    def saved(self) -> Saved:
        """What a run begins from."""
        return Saved(Progress(self.round, self.server), self.clients)


class Seen(Round):
    """A round, what the silos held after it and, when they are asked for, their personal models."""

    clients: list[State]
    each: list[Tensor]  # per silo and test example: right or wrong
    recipe: Callable[[], list[Model]]

    @property
    def server(self) -> State:
        return self.progress.server

    @property
    def saved(self) -> Saved:
        """All that is needed to continue."""
        return Saved(self.progress, self.clients)

    @cached_property
    def models(self) -> list[Model]:
        return self.recipe()

    def personal(self, client: int) -> Model:
        return self.models[client]


Opens = Callable[[Plan, Mapping[int, Silo]], AbstractContextManager[Carrier]]
"""Starts a carrier for the silos of a plan."""


def opened(engine: Engine | Literal["memory"], workers: int = 1, matrix_dir: Path | None = None) -> Opens:
    """How a carrier is started."""
    if engine == "memory":
        return lambda plan, at: Memory(plan, at)
    return lambda plan, at: carrier_of(engine, plan, at, workers, matrix_dir)


def models_of(plan: Plan, at: Sequence[Silo], start: Opens, saved: Saved) -> list[Model]:
    """Every silo's personal model after a round."""
    with start(plan, dict(enumerate(at))) as carrier:
        begin(plan, carrier, saved).keep()
        assert carrier.door is not None
        return carrier.door.delivered()


def plan_of(
    method: str | Method,
    *,
    at: Sequence[Silo] | None = None,
    on: Task | None = None,
    rounds: int = 3,
    seed: int = 1,
    epochs: int = 2,
    solver: Solver | None = None,
    **participation: Any,
) -> tuple[Plan, dict[int, Silo]]:
    """What everybody agrees on before a run, and the silos by their numbers."""
    method = build(method) if isinstance(method, str) else method
    at = silos() if at is None else at
    solver = solver_of(method) if solver is None else solver
    rule = Participation(epochs=epochs, **participation)
    plan = Plan(method, task() if on is None else on, federation_of(at, rounds, seed), solver, rule)
    return plan, dict(enumerate(at))


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
    engine: Engine | Literal["memory"] | Opens = "loop",
    start: Saved | States | None = None,
    matrix_dir: Path | None = None,
    stop_after: int | None = None,
    evaluate_every: int = 1,
    made_on: Opens | None = None,
    **participation: Any,
) -> list[Seen]:
    """The rounds of a run; `stop_after` leaves it early, though the federation is planned for all rounds.

    `made_on`: the carrier on which personal models are made when they are asked for, where it is another one.
    """
    method = build(method, settings) if isinstance(method, str) else method
    at = silos() if at is None else at
    agreed = {"rounds": rounds, "seed": seed, "epochs": epochs, "solver": solver, **participation}
    plan, hosted = plan_of(method, at=at, on=on, **agreed)
    how = opened(engine, workers, matrix_dir) if isinstance(engine, str) else engine
    out = []
    with how(plan, hosted) as carrier:
        saved = start.saved if isinstance(start, States) else start
        server = begin(plan, carrier, saved, evaluate_every=evaluate_every)
        for report in server.rounds():
            seen = Seen(*report)
            assert carrier.door is not None
            seen.clients = list(carrier.door.states())
            seen.each = [] if report.scores is None else carrier.door.predictions()
            seen.recipe = partial(models_of, plan, at, made_on or how, seen.saved)
            out.append(seen)
            if report.round == stop_after:
                break
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
