"""The small world of the attention tests: models that are points, the loss half the squared distance to the data."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

from amity.contract import Data, Federation, Method, Solver, Split, State, Turn
from amity.learn.streams import key_of, seed_of, stream
from amity.learn.task import Task

HALVING = 1 / math.log(2)  # with this sigma exp(-t / sigma) = 2^-t
TRIANGLE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)  # d^2: 1, 4 and 5


class Point(nn.Module):
    """A model that is nothing but a point w; its scores are w - x."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.w - x


def half_square(scores: Tensor, y: Tensor) -> Tensor:
    """F(w) = mean |w - x|^2 / 2: its gradient is w - mean x."""
    return 0.5 * (scores**2).sum(1).mean()


@functools.cache
def point(size: int) -> Task:
    return Task(lambda: Point(size), (size,), size, loss=half_square, dtype=torch.float64)


def facts(clients: int, rounds: int = 90, groups: list[int] | None = None) -> Federation:
    keys = torch.tensor([key_of(f"silo {i}") for i in range(clients)])
    known = None if groups is None else torch.tensor(groups)
    return Federation(torch.ones(clients, dtype=torch.int64), keys, known, rounds, seed=0)


def message(models: Tensor) -> State:
    """Uploads of models without buffers."""
    return {
        "params": models,
        "buffers": models.new_empty(len(models), 0),
        "counts": torch.empty(len(models), 0, dtype=torch.int64),
    }


def holding(method: Method, models: Tensor, *, heard: Tensor | None = None, fed: Federation | None = None) -> State:
    """The server after it heard these models, from all clients or from some."""
    who = torch.arange(len(models)) if heard is None else heard
    server = method.init_server(point(models.shape[1]), fed or facts(len(models)))
    return method.aggregate(server, who, message(models[who]), 1) if len(who) else server


def draws(role: str, key: int) -> Generator:
    return stream(0, role, key, 1)


class Sent(NamedTuple):
    """A download of mixed models, and the weights that they were mixed with."""

    each: dict[str, Tensor]  # [who, ...]
    weights: Tensor  # [who, m]
    notes: tuple[str, ...]
    to: Callable[[int], State]  # what a receiver gets to see


def sent_by(
    method: Method, server: State, who: Tensor, round: int, rng: Callable[[str, int], Generator] = draws
) -> Sent:
    """What these clients get."""
    down = method.download(server, who, round, rng)
    assert down.weights is not None
    each = {key: value for key, value in down.each.items() if isinstance(value, Tensor)}
    assert each.keys() == down.each.keys()  # none is a pick of stored rows
    return Sent(each, down.weights, down.notes, down.to)


def ask(method: Method, models: Tensor, *, round: int = 1, fed: Federation | None = None) -> Sent:
    """What the clients get once the server has heard all these models."""
    return sent_by(method, holding(method, models, fed=fed), torch.arange(len(models)), round)


def turn(data: Tensor, rate: float, *, round: int = 1, epochs: int = 1, batch: int = 100) -> Turn:
    examples = Split(data, torch.zeros(len(data), dtype=torch.int64))
    solver = Solver("sgd", rate, batch=batch)
    return Turn(round, epochs, solver, Data(examples, None), lambda role, epoch: seed_of(0, role, 0, round, epoch))


def client_at(method: Method, w: Tensor, rounds: int = 90) -> State:
    return {**method.init_client(point(len(w)), facts(1, rounds), 0), "params": w}


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@st.composite
def models(draw: st.DrawFn, least: int = 1, most: int = 6) -> Tensor:
    """Models on a coarse grid, so that duplicates, zero vectors and exact ties occur."""
    size = draw(st.integers(1, 4))
    row = st.lists(st.integers(-24, 24), min_size=size, max_size=size)
    return torch.tensor(draw(st.lists(row, min_size=least, max_size=most)), dtype=torch.float64) / 8
