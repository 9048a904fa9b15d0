"""Groups of silos with dominating classes (Huang et al., FedAMP, AAAI 2021; also PFedAtt).

80 % of a silo's examples are of its group's dominating classes, 20 % of all others; later groups have fewer examples.
Counts are totals per silo. The paper's tables:

    mnist    5 groups of two classes each, 500, 400, 300, 200, 100 examples per silo
    fmnist   the same groups, 600, 500, 400, 300, 200
    emnist   digits, upper case, lower case, in 10 : 26 : 26 silos, 1000, 700, 400
    cifar100 20 groups, the 5 classes of each superclass; 500, 400, 300, 200, 100, four groups each

Other data: a group for each superclass, else for each two classes in turn, and counts that fall evenly to those of
the last group (5:4:3:2:1 for five groups, as on MNIST) at the largest scale that can be served.

draw=quota: both parts are spread over their classes as evenly as possible. draw=random: every example's class is drawn
uniformly within its part. If a class runs out, those who want it share what there is, others of its group give the
rest, the test part follows the training part, and the notes say so.

Departures: test examples may repeat across silos, never within one, because the paper's 100 x 100 test
examples are more of some classes than MNIST has. Any number of silos is cut into groups as equal as can be. The
paper has every class at every silo; on CIFAR-100 the 20 % can be 20 examples, too few for 95 classes. Where CIFAR-100
has too few examples for the counts, 0.75 of them are dealt. With draw=random a silo can get
fewer examples than planned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor

from amity.contract import InputError
from amity.data.dealing import Dealt, apart, largest, overlapping, proportionally, supply, too_many
from amity.data.sources import Source
from amity.options import check, option


class Table(NamedTuple):
    """A row of the paper's table."""

    counts: tuple[int, ...]  # training examples per silo of each group
    clients: int
    reduced: float = 1.0  # of the counts, where the paper's number of silos cannot have them


_PAPER = {
    "mnist": Table((500, 400, 300, 200, 100), 100),
    "fmnist": Table((600, 500, 400, 300, 200), 100),
    "emnist": Table((1000, 700, 400), 62),
    "cifar100": Table(tuple(count for count in (500, 400, 300, 200, 100) for _ in range(4)), 100, reduced=0.75),
}
_EMNIST = (10, 26, 26)  # digits, upper case, lower case: classes, and silos in the paper
_TEST = 100
_NOTES = 5  # classes that are told apart
_TEST_AT_LEAST = 20  # where the paper gives no count; fewer say little about a silo


@dataclass(frozen=True)
class Practical:
    draw: Literal["quota", "random"] = option("quota", "classes within a part as even as possible, or drawn")

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        plan = _plan(source)
        stock, test_stock = supply(source.train.y, source.classes), supply(source.test.y, source.classes)
        counts, notes = plan.train_counts(stock, clients)
        test_counts = plan.test_counts(test_stock, clients)
        groups = plan.groups(clients)
        order = torch.randperm(clients, generator=rng)  # so that no silo is systematically the one to run short
        wishes = self._wishes(plan, groups, counts, order, rng)
        test_wishes = self._wishes(plan, groups, test_counts, order, rng)
        granted = _shared(wishes, stock)
        quotas, left = torch.empty_like(wishes), stock - granted.sum(0)
        for silo in order.tolist():
            quotas[silo] = plan.settle(wishes[silo], granted[silo] + left, int(groups[silo]))
            left = left + granted[silo] - quotas[silo]
        train = apart(source.train.y, quotas, rng)
        for silo in (quotas != wishes).any(1).nonzero().flatten().tolist():
            own = plan.owner == groups[silo]
            for part in (own, ~own):
                these = wishes[silo, part], quotas[silo, part]
                test_wishes[silo, part] = _following(test_wishes[silo, part], *these, rng)
        test_quotas = torch.stack(
            [plan.settle(wish, test_stock, group) for wish, group in zip(test_wishes, groups.tolist(), strict=True)]
        )
        return Dealt(
            train=train,
            test=overlapping(source.test.y, test_quotas, rng),
            groups=groups.tolist(),
            notes=(
                *notes,
                *plan.unused(clients),
                *plan.replaced("training", wishes, quotas),
                *plan.replaced("test", test_wishes, test_quotas),
            ),
        )

    def _wishes(self, plan: Plan, groups: Tensor, counts: Tensor, order: Tensor, rng: Generator) -> Tensor:
        """How many examples of each class every silo asks for.  # [m, classes]"""
        classes = len(plan.owner)
        wishes = torch.zeros(len(groups), classes, dtype=torch.int64)
        asked = torch.zeros(plan.number, classes, dtype=torch.int64)  # by each group so far
        for silo in order.tolist():
            group, count = groups[silo], counts[silo]
            own = plan.owner == group
            first = _dominating(count)
            for part, size in ((own, first), (~own, count - first)):
                if self.draw == "quota":
                    wishes[silo, part] = _spread(size, asked[group, part], rng)
                else:
                    drawn = torch.randint(int(part.sum()), (int(size),), generator=rng)
                    wishes[silo, part] = drawn.bincount(minlength=int(part.sum()))
            asked[group] += wishes[silo]
        return wishes


def _plan(source: Source) -> Plan:
    """The paper's table for these data, or the like for others."""
    classes = source.classes
    if source.name == "emnist" and classes == sum(_EMNIST):
        owner = torch.arange(len(_EMNIST)).repeat_interleave(torch.tensor(_EMNIST))
        return Plan(source.name, owner, _EMNIST, _PAPER["emnist"])
    if source.superclass:
        owner = torch.tensor(source.superclass).unique(return_inverse=True)[1]
        if len(owner.unique()) < 2:
            raise InputError(f"practical needs 2 superclasses or more, {source.name} has 1: choose another setting")
    elif classes < 4 or classes % 2:
        raise InputError(
            f"practical needs an even number of classes, 4 or more, {source.name} has {classes}: choose another setting"
        )
    else:
        owner = torch.arange(classes) // 2
    number = len(owner.unique())
    table = _PAPER.get(source.name)
    return Plan(source.name, owner, (1,) * number, table if table and len(table.counts) == number else None)


@dataclass(frozen=True, eq=False)
class Plan:
    """Which classes dominate in which group, and how many examples its silos have."""

    name: str
    owner: Tensor  # [classes] the group that each class dominates
    weights: tuple[int, ...]  # how many silos the groups have, in proportion
    table: Table | None

    @property
    def number(self) -> int:
        return len(self.weights)

    @property
    def sizes(self) -> Tensor:
        """Classes of each group.  # [groups]"""
        return self.owner.bincount(minlength=self.number)

    def groups(self, clients: int) -> Tensor:
        """Consecutive blocks of silos, as near to the plan as possible.  # [m]"""
        return torch.arange(self.number).repeat_interleave(torch.tensor(proportionally(clients, self.weights)))

    def per_group(self, per_class: Tensor) -> Tensor:
        return torch.zeros(self.number, dtype=per_class.dtype).index_add_(0, self.owner, per_class)

    def demand(self, groups: Tensor, counts: Tensor, *, mean: bool = False) -> Tensor:
        """The most that each group's classes can be asked for, by the way `_spread` works, or the mean.  # [groups]"""
        first = _dominating(counts)
        own = torch.zeros(self.number, dtype=torch.int64).index_add_(0, groups, first)
        rest = torch.zeros(self.number, dtype=torch.int64).index_add_(0, groups, counts - first)
        each = rest.double() / (len(self.owner) - self.sizes)  # what a group asks of a class not its own
        each = each if mean else each.ceil()
        return own + self.sizes * (each.sum() - each)

    def train_counts(self, stock: Tensor, clients: int) -> tuple[Tensor, list[str]]:
        """Training examples per silo [m], and what to note."""
        available = self.per_group(stock)
        per_group = torch.tensor(self.table.counts if self.table else range(self.number, 0, -1))

        def scaled(scale: float, clients: int) -> Tensor:
            return (scale * per_group.double()).round().long()[self.groups(clients)]

        def serves(clients: int, scale: float, mean: bool = False) -> bool:
            demand = self.demand(self.groups(clients), scaled(scale, clients), mean=mean)
            return bool((demand <= available).all())

        def reduced(clients: int) -> bool:
            table = self.table  # on the mean is enough: who asks of a group with nothing left is served by others
            if table is None or table.reduced == 1 or clients > table.clients:
                return False
            return serves(clients, table.reduced, mean=True)

        bound = int(stock.sum())
        most = largest(lambda m: serves(m, 1) or reduced(m), bound)
        if clients > most:
            raise too_many("practical", self.name, most, clients)
        if self.table is None:
            return scaled(largest(lambda s: serves(clients, s), bound), clients), []
        if serves(clients, 1):
            return scaled(1, clients), []
        note = f"{self.name} has too few examples for the paper's counts: {self.table.reduced:g} of them are dealt"
        return scaled(self.table.reduced, clients), [note]

    def test_counts(self, stock: Tensor, clients: int) -> Tensor:
        """Test examples per silo, the same for all.  # [m]"""
        available = self.per_group(stock)
        present = self.groups(clients).unique().tolist()

        def serves(count: int) -> bool:  # one silo of each group, because silos share test examples
            demands = [self.demand(torch.tensor([group]), torch.tensor([count])) for group in present]
            return all(bool((demand <= available).all()) for demand in demands)

        aim = _TEST if self.table else max(_TEST_AT_LEAST, int(stock.sum()) // clients)
        most = largest(serves, aim)
        if most < (_TEST if self.table else 1):
            raise InputError(
                f"practical needs {aim} test examples per silo, {self.name} serves {most}: choose another setting"
            )
        return torch.full((clients,), most)

    def settle(self, wish: Tensor, left: Tensor, group: int) -> Tensor:
        """A wish that can be granted: what a class has run out of, others of its group give.  # [classes]

        So dominating stays dominating, and the demand on each group stays as it was planned. Random wishes were not
        planned: there other classes of the same part give, and what even these lack is left out.
        """
        settled = torch.minimum(wish, left)
        if torch.equal(settled, wish):
            return wish
        for number in range(self.number):
            _give(settled, wish, left, self.owner == number)
        for part in (self.owner == group, self.owner != group):
            _give(settled, wish, left, part)
        return settled

    def unused(self, clients: int) -> list[str]:
        used = len(self.groups(clients).unique())
        return [f"only {used} of {self.number} groups have a silo"] if used < self.number else []

    def replaced(self, part: str, wishes: Tensor, quotas: Tensor) -> list[str]:
        """A note for each class that ran out, or one for all if they are many."""
        lack = (wishes - quotas).clamp(min=0)  # [m, classes]
        short = lack.sum(0)
        out = short.nonzero().flatten().tolist()
        notes = [
            f"class {label} ran out of {part} examples: {self._others(label)} gave {int(short[label])} in its place "
            f"(silos concerned: {int((lack[:, label] > 0).sum())})"
            for label in out
        ]
        if len(out) > _NOTES:
            notes = [
                f"{len(out)} classes ran out of {part} examples: others gave {int(short.sum())} in their place "
                f"(silos concerned: {int((lack.sum(1) > 0).sum())})"
            ]
        missing = int(wishes.sum() - quotas.sum())
        return [*notes, f"of these, {missing} {part} examples were not to be had"] if missing else notes

    def _others(self, label: int) -> str:
        group = (self.owner == self.owner[label]).nonzero().flatten().tolist()
        return f"class {sum(group) - label}" if len(group) == 2 else "others of its group"


def _shared(wishes: Tensor, stock: Tensor) -> Tensor:
    """Wishes, or where a class has fewer than is wished for, parts of it in proportion: a group's silos stay alike.

    # [m, classes]
    """
    granted = wishes.clone()
    for label in (wishes.sum(0) > stock).nonzero().flatten().tolist():
        granted[:, label] = torch.tensor(proportionally(int(stock[label]), wishes[:, label].tolist()))
    return granted


def _following(test_wish: Tensor, wish: Tensor, quota: Tensor, rng: Generator) -> Tensor:
    """A part's test examples, by the classes that a silo trains on where these are not the ones it wished for.

    Every class has its share to within one example, and exactly on the mean: most of many classes get none of a few
    test examples, and must not be the same ones at every silo. (Systematic sampling: a tick at every whole number and
    a random start.)
    """
    planned = int(wish.sum())
    if planned == 0:
        return test_wish
    count = int(test_wish.sum()) * int(quota.sum()) // planned  # fewer only if the training part is short as well
    start = torch.rand((), generator=rng, dtype=torch.float64)
    ends = (quota.cumsum(0).double() * count / max(1, int(quota.sum())) - start).ceil().long()
    return torch.diff(ends, prepend=ends.new_zeros(1))


def _dominating(counts: Tensor) -> Tensor:
    return (0.8 * counts.double()).round().long()


def _spread(count: Tensor, asked: Tensor, rng: Generator) -> Tensor:
    """A count over classes, as evenly as possible; the remainder goes to random ones of the least asked for.

    So a group's wishes for two classes differ by one at most, and `Plan.demand` knows them beforehand.
    """
    each, remainder = divmod(int(count), len(asked))
    spread = torch.full_like(asked, each)
    spread[torch.argsort(asked + torch.rand(len(asked), generator=rng, dtype=torch.float64))[:remainder]] += 1
    return spread


def _give(settled: Tensor, wish: Tensor, left: Tensor, part: Tensor) -> None:
    """What was not granted of a part's wishes, from those of its classes that have more left, in proportion."""
    room = (left - settled)[part]
    count = min(int((wish - settled)[part].sum()), int(room.sum()))
    if count > 0:
        settled[part] += torch.tensor(proportionally(count, room.tolist()))
