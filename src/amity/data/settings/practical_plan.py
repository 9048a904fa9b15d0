"""The plan behind the practical setting: which classes dominate in which group, and how many examples its silos get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from amity.contract import InputError
from amity.data.settings.quotas import largest, proportionally, too_many
from amity.data.source import Source


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


def plan_for(source: Source) -> Plan:
    """Return the plan of the paper's table for these data, or one of the same kind for others."""
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
    """Groups of silos: the classes that dominate in each, and the number of examples of its silos."""

    name: str
    owner: Tensor  # [classes] the group that each class dominates
    weights: tuple[int, ...]  # how many silos the groups have, in proportion
    table: Table | None

    @property
    def number(self) -> int:
        """The number of groups."""
        return len(self.weights)

    @property
    def sizes(self) -> Tensor:
        """The number of classes of each group.  # [groups]"""
        return self.owner.bincount(minlength=self.number)

    def groups(self, clients: int) -> Tensor:
        """Return the group of each silo: consecutive blocks, as near to the planned proportions as possible.  # [m]"""
        return torch.arange(self.number).repeat_interleave(torch.tensor(proportionally(clients, self.weights)))

    def per_group(self, per_class: Tensor) -> Tensor:
        """Add up numbers per class to numbers per group.  # [groups]"""
        return torch.zeros(self.number, dtype=per_class.dtype).index_add_(0, self.owner, per_class)

    def demand(self, groups: Tensor, counts: Tensor, *, mean: bool = False) -> Tensor:
        """Return the most that evenly spread wishes can ask of each group's classes, or the mean.  # [groups]"""
        first = dominating(counts)
        own = torch.zeros(self.number, dtype=torch.int64).index_add_(0, groups, first)
        rest = torch.zeros(self.number, dtype=torch.int64).index_add_(0, groups, counts - first)
        each = rest.double() / (len(self.owner) - self.sizes)  # what a group asks of a class not its own
        each = each if mean else each.ceil()
        return own + self.sizes * (each.sum() - each)

    def train_counts(self, stock: Tensor, clients: int) -> tuple[Tensor, list[str]]:
        """Return the number of training examples of each silo [m], and notes on them."""
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
        """Return the number of test examples of each silo, the same for all.  # [m]"""
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
        """Turn a wish into one that can be granted: where a class has run out, others of its group give.  # [classes]

        So dominating classes still dominate, and the demand on each group stays as planned. Random wishes were not
        planned: for them, other classes of the same part give, and what even these lack is left out.
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
        """Return a note if there are fewer silos than groups."""
        used = len(self.groups(clients).unique())
        return [f"only {used} of {self.number} groups have a silo"] if used < self.number else []

    def replaced(self, part: str, wishes: Tensor, quotas: Tensor) -> list[str]:
        """Return a note for each class that ran out, or one for all if they are many."""
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


def dominating(counts: Tensor) -> Tensor:
    """Return how many of these examples are of the dominating classes: 80 %."""
    return (0.8 * counts.double()).round().long()


def _give(settled: Tensor, wish: Tensor, left: Tensor, part: Tensor) -> None:
    """Add to `settled` what was not granted of a part's wishes, from its classes that have more left, in proportion."""
    room = (left - settled)[part]
    count = min(int((wish - settled)[part].sum()), int(room.sum()))
    if count > 0:
        settled[part] += torch.tensor(proportionally(count, room.tolist()))
