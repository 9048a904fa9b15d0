"""Small dense networks, many at once: batched matrix products over models [m, d], and their gradients by hand.

    h_0 = x,   h_l = f_l(h_{l-1} W_l^T + b_l)                   every client with its own W_l, b_l and examples
    D_L = s (softmax(h_L) - onehot(y))                          s: 1 / examples of the client's batch, 0 where padded,
                                                                times the weight of the example's class, if it has one
    dF/dW_l = D_l^T h_{l-1},   dF/db_l = sum of D_l,   D_{l-1} = (D_l W_l) f_{l-1}'

It is the loss that `Task` has by default, the mean cross-entropy; of quantities the mean squared error, where
D_L = 2 s (h_L - y). By hand because a step of a small network costs
less than the bookkeeping of automatic differentiation: torch.func takes 4 to 12 times as long here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from amity.learn.losses import mean_square
from amity.learn.task import Task
from amity.learn.vectors import Slot


class Activation(NamedTuple):
    apply: Callable[[Tensor], Tensor]  # in place
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient, output) -> gradient before it, in place


IDENTITY = Activation(lambda a: a, lambda g, h: g)
ACTIVATIONS = {
    nn.ReLU: Activation(torch.relu_, lambda g, h: g.mul_(h > 0)),
    nn.Tanh: Activation(torch.tanh_, lambda g, h: g.mul_(1 - h * h)),
    nn.Sigmoid: Activation(torch.sigmoid_, lambda g, h: g.mul_(h * (1 - h))),
}


class Layer(NamedTuple):
    """Where a linear layer lies in the flat model, and what comes after it."""

    weight: Slot
    bias: Slot | None
    activation: Activation


class Weights(NamedTuple):
    """A layer of many models, as views."""

    weight: Tensor  # [m, out, in]
    turned: Tensor  # [m, in, out]
    bias: Tensor | None  # [m, 1, out]


class Dense(NamedTuple):
    """A network that can be stacked."""

    layers: tuple[Layer, ...]
    flattens: bool  # examples of any shape are read as vectors
    quantities: bool = False  # labels are such, and the loss is the squared error

    def views(self, models: Tensor) -> list[Weights]:
        """The layers of models [m, d]."""
        out = []
        for layer in self.layers:
            weight = _view(models, layer.weight)
            bias = None if layer.bias is None else _view(models, layer.bias)[:, None]
            out.append(Weights(weight, weight.transpose(1, 2), bias))
        return out

    def outputs(self, models: list[Weights], x: Tensor) -> list[Tensor]:
        """What goes into each layer, and the scores that come out of the last.  # x [m, n, features]"""
        out = [x]
        for layer, (_, turned, bias) in zip(self.layers, models, strict=True):
            a = torch.bmm(out[-1], turned) if bias is None else torch.baddbmm(bias, out[-1], turned)
            out.append(layer.activation.apply(a))
        return out

    def losses(self, scores: Tensor, y: Tensor) -> Tensor:
        """The loss of each example.  # [m, n, classes], [m, n] -> [m, n]"""
        if self.quantities:
            return (scores[:, :, 0] - y).square()
        return -torch.log_softmax(scores, 2).gather(2, y[:, :, None])[:, :, 0]

    def gradient(self, models: list[Weights], x: Tensor, y: Tensor, share: Tensor, into: list[Weights]) -> Tensor:
        """Write the gradients of sum(share * loss); return the scores.  # y, share [m, n] -> [m, n, classes]"""
        outputs = self.outputs(models, x)
        share = share[:, :, None]
        if self.quantities:
            delta = (outputs[-1] - y[:, :, None]).mul_(2 * share)
        else:
            delta = torch.softmax(outputs[-1], 2).mul_(share).scatter_add_(2, y[:, :, None], -share)
        for place in reversed(range(len(self.layers))):
            weight, _, bias = into[place]
            delta = self.layers[place].activation.backward(delta, outputs[place + 1])
            weight.copy_(torch.bmm(delta.transpose(1, 2), outputs[place]))  # into strided rows bmm is slower
            if bias is not None:
                torch.sum(delta, 1, keepdim=True, out=bias)
            if place:
                delta = torch.bmm(delta, models[place].weight)
        return outputs[-1]


def _view(models: Tensor, slot: Slot) -> Tensor:
    return models[:, slot.start : slot.start + slot.shape.numel()].view(len(models), *slot.shape)


def dense_of(task: Task) -> Dense | str:
    """The task's network as batched products, or why it has none."""
    if task.loss not in (F.cross_entropy, mean_square):
        return "its loss is neither the cross-entropy nor the squared error"
    module = task.module(task.init(Generator()))
    if any(p._forward_hooks or p._forward_pre_hooks or p._backward_hooks for p in module.modules()):
        return "it has hooks"
    slots = {slot.name: slot for slot in task.layout.params}
    names = {part: name for name, part in module.named_modules()}
    layers: list[Layer] = []
    flattens = False
    for part in _parts(module):
        kind = type(part)
        if isinstance(part, nn.Flatten) and (part.start_dim, part.end_dim) == (1, -1):
            flattens = flattens or not layers
        elif kind is nn.Linear:
            tensors = [f"{names[part]}.{name}".lstrip(".") for name, _ in part.named_parameters()]
            if not all(tensor in slots for tensor in tensors):
                return "some of its parameters are frozen or used twice"
            weight, *bias = (slots.pop(tensor) for tensor in tensors)
            layers.append(Layer(weight, bias[0] if bias else None, IDENTITY))
        elif layers and layers[-1].activation is IDENTITY and kind in ACTIVATIONS:
            layers[-1] = layers[-1]._replace(activation=ACTIVATIONS[kind])
        elif kind is not nn.Identity:
            return f"it has a {kind.__name__}, which is not one of its dense layers or their activations"
    if slots:
        return f"{next(iter(slots))} is not part of a dense layer"
    return Dense(tuple(layers), flattens, task.loss is mean_square)


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    """The modules that a (nested) Sequential applies one after the other."""
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        for part in module:
            yield from _parts(part)
    else:
        yield module
