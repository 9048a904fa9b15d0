"""Losses, and weights of classes in the loss of training.

    cross-entropy           mean over the batch of l_i = -log p(y_i)
    with class weights      mean over the batch of w(y_i) l_i,     w(c) = n / (classes * n_c)
    squared error           mean over the batch of (f(x_i) - y_i)^2, where labels are quantities

`n` are a silo's training examples, `n_c` those of class c, `classes` how many classes the silo has. Each silo counts
for itself alone, and a class that it does not have weighs nothing. Every class of the silo then has the same part in
its loss, and the mean weight of its examples is 1.

The sum is divided by the number of examples in the batch. torch's `CrossEntropyLoss(weight=...)` divides by the sum of
their weights instead, and there a batch of a single class is not weighted at all: its weight cancels. Divided by the
number, a batch's gradient has the gradient over all training data as its mean, batches add up by their sizes, and the
steps of an epoch are as long as without weights on average, so that a rate that suits one suits the other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def mean_square(outputs: Tensor, y: Tensor) -> Tensor:
    """The loss where labels are quantities.  # [n, 1], [n]"""
    return (outputs[:, 0] - y).square().mean()


def weighted_cross_entropy(outputs: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The loss of training where classes have weights.  # [n, classes], [n], [classes]"""
    return F.cross_entropy(outputs, y, weight=weights, reduction="sum") / len(y)


def balanced(y: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """The weights of classes with which each that occurs among the labels counts as much as any other.  # [classes]"""
    counts = torch.bincount(y, minlength=classes)
    there = counts > 0
    weights = len(y) / (there.sum() * counts.clamp(min=1)).to(torch.float64)
    return torch.where(there, weights, 0.0).to(dtype)


def each_loss(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of each example, of a loss that gives the mean over examples.  # [n, classes], [n] -> [n]"""
    if loss is F.cross_entropy:
        return F.cross_entropy(outputs, y, reduction="none")
    return torch.stack([loss(outputs[at : at + 1], y[at : at + 1]) for at in range(len(y))])
