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
from typing import Literal

import torch
from torch import Generator, Tensor

from amity.config.options import check, option
from amity.data.settings.practical_plan import Plan, dominating, plan_for
from amity.data.settings.quotas import apart, overlapping, proportionally, supply
from amity.data.settings.setting import Dealt
from amity.data.source import Source


@dataclass(frozen=True)
class Practical:
    """Groups of silos, each with its own dominating classes."""

    draw: Literal["quota", "random"] = option("quota", "classes within a part as even as possible, or drawn")

    def __post_init__(self) -> None:
        check(self)

    def deal(self, source: Source, clients: int, rng: Generator) -> Dealt:
        plan = plan_for(source)
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
        """Return how many examples of each class every silo asks for.  # [m, classes]"""
        classes = len(plan.owner)
        wishes = torch.zeros(len(groups), classes, dtype=torch.int64)
        asked = torch.zeros(plan.number, classes, dtype=torch.int64)  # by each group so far
        for silo in order.tolist():
            group, count = groups[silo], counts[silo]
            own = plan.owner == group
            first = dominating(count)
            for part, size in ((own, first), (~own, count - first)):
                if self.draw == "quota":
                    wishes[silo, part] = _spread_evenly(size, asked[group, part], rng)
                else:
                    drawn = torch.randint(int(part.sum()), (int(size),), generator=rng)
                    wishes[silo, part] = drawn.bincount(minlength=int(part.sum()))
            asked[group] += wishes[silo]
        return wishes


def _shared(wishes: Tensor, stock: Tensor) -> Tensor:
    """Return the wishes as far as there are examples.  # [m, classes]

    Of a class that has fewer than all ask for, everybody gets a part in proportion: a group's silos stay alike.
    """
    granted = wishes.clone()
    for label in (wishes.sum(0) > stock).nonzero().flatten().tolist():
        granted[:, label] = torch.tensor(proportionally(int(stock[label]), wishes[:, label].tolist()))
    return granted


def _following(test_wish: Tensor, wish: Tensor, quota: Tensor, rng: Generator) -> Tensor:
    """Return test examples by the classes that a silo trains on, where these are not the ones it wished for.

    Every class has its share to within one example, and exactly on the mean: with few test examples most of many
    classes get none, and these must not be the same ones at every silo. (Systematic sampling: a tick at every whole
    number, and a random start.)
    """
    planned = int(wish.sum())
    if planned == 0:
        return test_wish
    count = int(test_wish.sum()) * int(quota.sum()) // planned  # fewer only if the training part is short as well
    start = torch.rand((), generator=rng, dtype=torch.float64)
    ends = (quota.cumsum(0).double() * count / max(1, int(quota.sum())) - start).ceil().long()
    return torch.diff(ends, prepend=ends.new_zeros(1))


def _spread_evenly(count: Tensor, asked: Tensor, rng: Generator) -> Tensor:
    """Spread a count over classes as evenly as possible; the remainder goes to random ones of those least asked for.

    So a group's wishes for two classes differ by one at most, and `Plan.demand` can foresee them.
    """
    each, remainder = divmod(int(count), len(asked))
    spread = torch.full_like(asked, each)
    spread[torch.argsort(asked + torch.rand(len(asked), generator=rng, dtype=torch.float64))[:remainder]] += 1
    return spread
