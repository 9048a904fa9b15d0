"""Groups of silos with dominating classes (Huang et al., FedAMP, AAAI 2021; also PFedAtt).

80 % of a silo's examples are of its group's two dominating classes, 20 % of all others. Group g is dominated
by classes 2g and 2g + 1; later groups have fewer examples. Counts are totals per silo: the paper's for MNIST
and Fashion-MNIST; on other data MNIST's ratio 5:4:3:2:1 at the largest scale that can be served.

Departures: test examples may repeat across silos, never within one, because the paper's 100 x 100 test
examples are more of some classes than MNIST has. Any number of silos is cut into groups as equal as can be.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from amity.contract import InputError
from amity.data.dealing import Dealt, apart, equally, largest, overlapping, supply, too_many
from amity.data.sources import Source

_TRAIN = {"mnist": (500, 400, 300, 200, 100), "fmnist": (600, 500, 400, 300, 200)}  # per silo of each group
_TEST = 100
_TEST_AT_LEAST = 20  # where the paper gives no count; fewer say little about a silo


def practical(source: Source, clients: int, rng: Generator) -> Dealt:
    if source.classes < 4 or source.classes % 2:
        raise InputError(
            f"practical needs an even number of classes, 4 or more, {source.name} has {source.classes}: "
            "choose another setting"
        )
    stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
    counts = _train_counts(source.name, stock, clients)
    test_counts = _test_counts(source.name, test_stock, clients)
    groups = _groups(clients, source.classes // 2)
    order = torch.randperm(clients, generator=rng)  # so that no silo is systematically the one to run short
    wishes = _wishes(groups, counts, source.classes, order, rng)
    test_wishes = _wishes(groups, test_counts, source.classes, order, rng)
    quotas, left = torch.empty_like(wishes), stock
    for silo in order.tolist():
        quotas[silo] = _settle(wishes[silo], left)
        left = left - quotas[silo]
    test_quotas = torch.stack([_settle(wish, test_stock) for wish in test_wishes])
    return Dealt(
        train=apart(source.train.y, quotas, rng),
        test=overlapping(source.test.y, test_quotas, rng),
        groups=groups.tolist(),
        notes=(
            *_unused(clients, source.classes // 2),
            *_replaced("training", wishes, quotas),
            *_replaced("test", test_wishes, test_quotas),
        ),
    )


def _groups(clients: int, pairs: int) -> Tensor:
    """Consecutive blocks of silos, as equal as possible.  # [m]"""
    return torch.arange(pairs).repeat_interleave(torch.tensor(equally(clients, pairs)))


def _dominating(counts: Tensor) -> Tensor:
    return (0.8 * counts.double()).round().long()


def _demand(groups: Tensor, counts: Tensor, pairs: int) -> Tensor:
    """The most that each pair of classes can be asked for, by the way `_wishes` spreads.  # [pairs]"""
    first = _dominating(counts)
    own = torch.zeros(pairs, dtype=torch.int64).index_add_(0, groups, first)
    rest = torch.zeros(pairs, dtype=torch.int64).index_add_(0, groups, counts - first)
    others = 2 * torch.ceil(rest / (2 * pairs - 2)).long()  # what a group may ask of a pair that is not its own
    return own + others.sum() - others


def _train_counts(name: str, stock: Tensor, clients: int) -> Tensor:
    """Training examples per silo.  # [m]"""
    pairs = len(stock) // 2
    available = stock.view(pairs, 2).sum(1)
    per_group = torch.tensor(_TRAIN.get(name, range(pairs, 0, -1)))

    def serves(clients: int, scale: int) -> bool:
        groups = _groups(clients, pairs)
        return bool((_demand(groups, scale * per_group[groups], pairs) <= available).all())

    bound = int(stock.sum())
    most = largest(lambda m: serves(m, 1), bound)
    if clients > most:
        raise too_many("practical", name, most, clients)
    scale = 1 if name in _TRAIN else largest(lambda s: serves(clients, s), bound)
    return scale * per_group[_groups(clients, pairs)]


def _test_counts(name: str, stock: Tensor, clients: int) -> Tensor:
    """Test examples per silo, the same for all.  # [m]"""
    pairs = len(stock) // 2
    available = stock.view(pairs, 2).sum(1)

    def serves(count: int) -> bool:  # one silo of each group, because silos share test examples
        demands = [_demand(torch.tensor([group]), torch.tensor([count]), pairs) for group in range(min(clients, pairs))]
        return all(bool((demand <= available).all()) for demand in demands)

    aim = _TEST if name in _TRAIN else max(_TEST_AT_LEAST, int(stock.sum()) // clients)
    most = largest(serves, aim)
    if most < (_TEST if name in _TRAIN else 1):
        raise InputError(f"practical needs {aim} test examples per silo, {name} serves {most}: choose another setting")
    return torch.full((clients,), most)


def _wishes(groups: Tensor, counts: Tensor, classes: int, order: Tensor, rng: Generator) -> Tensor:
    """How many examples of each class every silo asks for.  # [m, classes]"""
    wishes = torch.zeros(len(groups), classes, dtype=torch.int64)
    asked = torch.zeros(classes // 2, classes, dtype=torch.int64)  # by each group so far
    for silo in order.tolist():
        group, count = groups[silo], counts[silo]
        own = torch.arange(classes) // 2 == group
        first = _dominating(count)
        wishes[silo, own] = _spread(first, asked[group, own], rng)
        wishes[silo, ~own] = _spread(count - first, asked[group, ~own], rng)
        asked[group] += wishes[silo]
    return wishes


def _spread(count: Tensor, asked: Tensor, rng: Generator) -> Tensor:
    """A count over classes, as evenly as possible; the remainder goes to random ones of the least asked for.

    So a group's wishes for two classes differ by one at most, and `_demand` knows them beforehand.
    """
    each, remainder = divmod(int(count), len(asked))
    spread = torch.full_like(asked, each)
    spread[torch.argsort(asked + torch.rand(len(asked), generator=rng, dtype=torch.float64))[:remainder]] += 1
    return spread


def _settle(wish: Tensor, left: Tensor) -> Tensor:
    """A wish that can be granted: what a class has run out of, the other one of its pair gives.  # [classes]

    So dominating stays dominating, and the demand on each pair stays as it was planned.
    """
    excess = (wish - left).clamp(min=0)
    return wish - excess + excess.view(-1, 2).flip(1).flatten()


def _unused(clients: int, pairs: int) -> list[str]:
    return [f"only the first {clients} of {pairs} groups have a silo"] if clients < pairs else []


def _replaced(part: str, wishes: Tensor, quotas: Tensor) -> list[str]:
    """One note for each class that ran out."""
    lack = (wishes - quotas).clamp(min=0)  # [m, classes]
    return [
        f"class {label} ran out of {part} examples: class {label ^ 1} gave {count} in its place "
        f"(silos concerned: {int((lack[:, label] > 0).sum())})"
        for label, count in enumerate(lack.sum(0).tolist())
        if count
    ]
