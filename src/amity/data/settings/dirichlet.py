"""Classes shared by the Dirichlet distribution (FedACS; Hsu, Qi and Brown 2019).

axis=class: for each class, shares over the silos are drawn from Dir(alpha, ..., alpha), and the class is cut by them.
axis=client: silos are of equal size, and each draws its mix of classes from Dir(alpha, ..., alpha); where a class has
run out, the silo's other classes fill the gap in proportion to its mix, and then whatever is left.

Test examples follow the shares of each class that silos have in training (test_from=shares), or are a random
quarter of the silo's training examples, with the test set unused (test_from=holdout).

`scarce` keeps a random 50 of every silo's training examples, so its mix stays; `many` is 500 silos, of which a tenth
is sampled in each round.

Departures: shares over the silos are drawn again until every silo has `min_size` examples, at most 100 times, because
with many silos or a small alpha that practically never happens. Then the largest silos give, and a note says how much;
so they do for a silo without a test example. FedACS leaves open how many of 500 silos take part: the tenth is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.data.settings.quotas import alike, apart, cut, equally, supply, too_many, topped_up
from amity.data.settings.setting import Dealt
from amity.data.source import Source

_DRAWS = 100
_ALPHA = 0.5
_HELD_OUT = 0.25  # the share of a silo's training examples that test_from=holdout takes for testing


def _alpha() -> float:
    alpha: float = option(
        _ALPHA, "concentration: small for silos with few classes, large for equal ones", at_least=1e-6
    )
    return alpha


@dataclass(frozen=True)
class Dirichlet:
    """Random shares of every class over silos, or of classes within each silo."""

    alpha: float = _alpha()
    axis: Literal["class", "client"] = option("class", "shares of each class over silos, or of classes in each silo")
    min_size: int = option(10, "training examples that every silo has at least", at_least=1)
    test_from: Literal["shares", "holdout"] = option(
        "shares", "test set by the shares in training, or a quarter of the training examples"
    )

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        return _deal(self, "dirichlet", source, clients, rng)


@dataclass(frozen=True)
class Scarce:
    """Random shares of every class, of which each silo keeps a few examples."""

    alpha: float = _alpha()
    samples: int = option(50, "training examples per silo", at_least=1)

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        dealt = _deal(Dirichlet(self.alpha, min_size=self.samples), "scarce", source, clients, rng)
        return dealt._replace(train=[_some(part, self.samples, rng) for part in dealt.train])


@dataclass(frozen=True)
class Many:
    """Random shares of every class over hundreds of silos."""

    alpha: float = _alpha()
    min_size: int = option(10, "training examples that every silo has at least", at_least=1)

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        return _deal(Dirichlet(self.alpha, min_size=self.min_size), "many", source, clients, rng)


def _deal(rule: Dirichlet, name: str, source: Source, clients: int, rng: Generator) -> Dealt:
    """Deal by shares from the Dirichlet distribution; `name` is the setting's in errors."""
    holdout = rule.test_from == "holdout"
    least = max(rule.min_size, 2) if holdout else rule.min_size  # one to train and one to test on
    stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
    most = int(stock.sum()) // least
    if not holdout:
        most = min(most, int(test_stock[stock > 0].sum()))
    if clients > most:
        raise too_many(name, source.name, most, clients)
    if rule.axis == "class":
        quotas, notes = _by_class(rule.alpha, stock, clients, least, rng)
    else:
        quotas, notes = _by_client(rule.alpha, stock, clients, rng), []
    train = apart(source.train.y, quotas, rng)
    if holdout:
        test = [_some(part, max(1, round(_HELD_OUT * len(part))), rng) for part in train]
        kept = [part[~torch.isin(part, out)] for part, out in zip(train, test, strict=True)]
        return Dealt(kept, test, [None] * clients, tuple(notes), held_out=True)
    test_quotas, moved = alike(quotas, stock, test_stock)
    if moved:
        notes.append(f"{moved} test examples were moved so that every silo has one")
    return Dealt(train, apart(source.test.y, test_quotas, rng), [None] * clients, tuple(notes))


def dirichlet(alpha: float, rows: int, columns: int, rng: Generator) -> Tensor:
    """Draw every column from Dir(alpha, ..., alpha).  # [rows, columns]

    Gamma(alpha) is Gamma(alpha + 1) U^(1 / alpha); in logarithms nothing underflows, however small alpha is.
    """
    size = (rows, columns)
    gamma = torch._standard_gamma(torch.full(size, alpha + 1, dtype=torch.float64), generator=rng)
    uniform = 1 - torch.rand(size, generator=rng, dtype=torch.float64)  # in (0, 1]
    return torch.softmax(gamma.log() + uniform.log() / alpha, dim=0)


def _by_class(alpha: float, stock: Tensor, clients: int, least: int, rng: Generator) -> tuple[Tensor, list[str]]:
    """Return quotas [m, classes] that use every example, and notes on what was changed in them."""
    for _ in range(_DRAWS):
        quotas = cut(dirichlet(alpha, clients, len(stock), rng), stock)
        if int(quotas.sum(1).min()) >= least:
            return quotas, []
    quotas, moved = topped_up(quotas, least, quotas)
    done = f"{moved} training examples were moved from the largest silos"
    return quotas, [f"{_DRAWS} draws left a silo with fewer than {least}: {done}"]


def _by_client(alpha: float, stock: Tensor, clients: int, rng: Generator) -> Tensor:
    """Return quotas [m, classes] of equal size that use every example."""
    mixes = dirichlet(alpha, len(stock), clients, rng).T  # [m, classes]
    sizes = equally(int(stock.sum()), clients)
    quotas, left = torch.zeros(clients, len(stock), dtype=torch.int64), stock.clone()
    for silo in torch.randperm(clients, generator=rng).tolist():  # so that it is not always the same who take the rest
        while (need := sizes[silo] - int(quotas[silo].sum())) > 0:
            mix = mixes[silo] * (left > 0)
            taken = torch.minimum(_rounded(need, mix if mix.any() else left.double()), left)
            quotas[silo] += taken
            left -= taken
    return quotas


def _rounded(n: int, weights: Tensor) -> Tensor:
    """Divide n in proportion to the weights; the largest remainders get what rounding leaves.  # [classes]"""
    exact = n * weights / weights.sum()
    parts = exact.long()
    parts[torch.argsort(parts - exact, stable=True)[: n - int(parts.sum())]] += 1
    return parts


def _some(part: Tensor, count: int, rng: Generator) -> Tensor:
    """Choose `count` of these positions at random, and return them in ascending order."""
    return part[torch.randperm(len(part), generator=rng)[:count].sort().values]
