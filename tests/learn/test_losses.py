"""Class weights in the loss of training: by hand, against torch and scikit-learn, and at every silo for itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight
from small import batchnorm, flat, linear, mlp, near, run, silo, silos
from torch import nn
from torch.nn import functional as F

from amity.contract import Data, InputError, Silo, Split
from amity.learn.losses import balanced, weighted_cross_entropy
from amity.learn.streams import stream
from amity.learn.task import Task


def weighted(make: object = linear, classes: int = 3) -> Task:
    return Task(make, (3,), classes, dtype=torch.float64, class_weights="balanced")  # type: ignore[arg-type]


def plain(make: object = linear) -> Task:
    return Task(make, (3,), 3, dtype=torch.float64)  # type: ignore[arg-type]


def test_weights_by_hand() -> None:
    """Four examples of class 0 and two of class 2; two classes are there: 6 / (2 * 4) and 6 / (2 * 2)."""
    found = balanced(torch.tensor([0, 0, 2, 0, 2, 0]), 4, torch.float64)
    assert found.tolist() == [0.75, 0.0, 1.5, 0.0]


def test_nothing_is_divided_by_zero() -> None:
    assert balanced(torch.tensor([], dtype=torch.int64), 3, torch.float64).tolist() == [0.0, 0.0, 0.0]
    assert balanced(torch.tensor([1, 1]), 3, torch.float64).tolist() == [0.0, 1.0, 0.0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60))
def test_weights_are_those_of_scikit_learn_and_one_in_the_mean(labels: list[int]) -> None:
    y = torch.tensor(labels)
    found = balanced(y, 6, torch.float64)
    there = np.unique(labels)
    reference = compute_class_weight("balanced", classes=there, y=np.array(labels))
    assert found[torch.from_numpy(there)].tolist() == pytest.approx(reference.tolist())
    assert found[y].mean().item() == pytest.approx(1.0)
    assert (found > 0).sum() == len(there)


def test_a_gradient_by_hand() -> None:
    """Three examples with one feature, labels 0, 0, 1, at the model 0: probabilities are 1/2.

    Of the logit of class 0 an example has the slope (1/2 - [y = 0]) x. Weights are 3 / (2 * 2) and 3 / (2 * 1), so
    dF/dw_0 = (3/4 (-1/2) 1 + 3/4 (-1/2) 2 + 3/2 (1/2) 4) / 3 = (-3/8 - 6/8 + 3) / 3 = 5/8, and dF/dw_1 = -5/8.
    """
    start = {"weight": torch.zeros(2, 1)}
    make = lambda: nn.Linear(1, 2, bias=False)  # noqa: E731
    on = Task(make, (1,), 2, dtype=torch.float64, start=start, class_weights="balanced")
    batch = Split(torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64), torch.tensor([0, 0, 1]))
    own = on.at(batch)
    loss, gradient = own.gradient(own.import_state(start), batch)
    assert gradient.tolist() == pytest.approx([5 / 8, -5 / 8])
    assert loss.item() == pytest.approx(math.log(2) * (3 / 4 + 3 / 4 + 3 / 2) / 3)


def test_the_loss_is_torchs_but_for_what_it_is_divided_by() -> None:
    """torch divides the sum by the weights in the batch, we by its examples: equal where the batch is all there is."""
    rng = torch.Generator().manual_seed(0)
    outputs, y = torch.randn(9, 4, generator=rng, dtype=torch.float64), torch.tensor([0, 0, 0, 1, 1, 3, 0, 0, 0])
    weights = balanced(y, 4, torch.float64)
    theirs = nn.CrossEntropyLoss(weight=weights)(outputs, y)
    assert weighted_cross_entropy(outputs, y, weights).item() == pytest.approx(theirs.item())
    some, labels = outputs[:4], y[:4]
    theirs = nn.CrossEntropyLoss(weight=weights)(some, labels)
    share = weights[labels].sum().item() / 4
    assert weighted_cross_entropy(some, labels, weights).item() == pytest.approx(theirs.item() * share)
    (same,) = {weighted_cross_entropy(some[:3], y[:3], weights).item()}  # one class: torch's weight cancels, ours stays
    unweighted = F.cross_entropy(some[:3], y[:3]).item()
    assert nn.CrossEntropyLoss(weight=weights)(some[:3], y[:3]).item() == pytest.approx(unweighted)
    assert same == pytest.approx(weights[0].item() * unweighted)


@pytest.mark.parametrize("batch", [1, 4, 7])
def test_batches_add_up_to_the_whole(batch: int) -> None:
    """By their sizes, whatever the batch: an epoch's gradients have the gradient over all data as their mean."""
    data = silo("ash", 13).train
    on = weighted().at(data)
    model = on.init(stream(1, "model"))
    whole = on.gradient(model, data)[1].clone()
    total = torch.zeros_like(whole)
    for x, y in zip(data.x.split(batch), data.y.split(batch), strict=True):
        total += on.gradient(model, Split(x, y))[1] * len(y)
    assert near(total / 13, whole)


def test_every_class_of_a_silo_has_the_same_part() -> None:
    """Ten examples of one class and two of another weigh as much as six of each."""
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rare = Split(x[[0] * 10 + [1] * 2], torch.tensor([0] * 10 + [2] * 2))
    even = Split(x[[0] * 6 + [1] * 6], torch.tensor([0] * 6 + [2] * 6))
    model = plain().init(stream(1, "model"))
    one, other = weighted().at(rare).gradient(model, rare)[1].clone(), plain().gradient(model, even)[1]
    assert near(one, other)


def test_without_weights_a_task_is_the_same_at_every_silo() -> None:
    on = plain()
    assert on.at(silo("ash", 7).train) is on and on.weights is None


def test_what_is_evaluated_has_no_weights() -> None:
    one = silo("ash", 7)
    on, other = weighted(mlp), plain(mlp)
    on.train_loss = other.train_loss = True
    model = on.init(stream(1, "model"))
    data = Data(one.train, one.test)
    mine, theirs = on.at(one.train).measure(model, data, one.test), other.measure(model, data, one.test)
    assert (mine.loss, mine.train_loss, mine.val, mine.metrics) == (
        theirs.loss,
        theirs.train_loss,
        theirs.val,
        theirs.metrics,
    )


def test_a_loss_of_ones_own_has_no_class_weights() -> None:
    with pytest.raises(InputError, match="class weights are part of the cross-entropy"):
        Task(linear, (3,), 3, loss=lambda out, y: out.sum(), class_weights="balanced")
    with pytest.raises(InputError, match="class weights are part of the cross-entropy"):
        Task(lambda: nn.Linear(3, 1), (3,), 0, class_weights="balanced")


def test_a_silo_counts_its_own_examples_alone() -> None:
    """Other silos' labels change nothing for one that trains alone."""
    at = silos()
    other = [at[0], *(one._replace(train=Split(one.train.x, 0 * one.train.y)) for one in at[1:])]
    mine, theirs = (flat(run("separate", at=which, on=weighted(mlp))[-1])[0] for which in (at, other))
    assert torch.equal(mine, theirs)


@pytest.mark.parametrize("engine", ["loop", "stacked", "memory"])
def test_a_silo_without_some_classes_or_with_one_trains(engine: str) -> None:
    at: list[Silo] = silos(3)
    at[1] = at[1]._replace(train=Split(at[1].train.x, torch.full_like(at[1].train.y, 2)))
    at[2] = at[2]._replace(train=Split(at[2].train.x, at[2].train.y.clamp(max=1)))
    report = run("fedavg-local", at=at, on=weighted(mlp), engine=engine)[-1]  # type: ignore[arg-type]
    assert bool(torch.isfinite(flat(report)).all())
    same = run("fedavg-local", at=at[1:2], on=plain(mlp))[-1]  # one class alone has the weight 1
    alone = run("fedavg-local", at=at[1:2], on=weighted(mlp), engine=engine)[-1]  # type: ignore[arg-type]
    assert near(flat(alone), flat(same))


def test_normalising_models_have_class_weights_too() -> None:
    rounds = run("fedavg", on=weighted(batchnorm))
    assert not near(flat(rounds[-1]), flat(run("fedavg", on=plain(batchnorm))[-1]))
