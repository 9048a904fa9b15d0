"""Plain modules, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from amity.config import options
from amity.contract import InputError
from amity.models.cnn import CNN
from amity.models.cnn1d import CNN1d
from amity.models.cnn_apple import CNNApple
from amity.models.mlp import MLP
from amity.models.mlr import MLR
from amity.models.resnet import ResNet18

__all__ = ["CNN", "MLP", "MLR", "MODELS", "BuiltIn", "CNN1d", "CNNApple", "Entry", "ResNet18", "make", "resolve"]


@dataclass(frozen=True)
class Entry:
    """A model as it is listed."""

    title: str
    description: str
    build: Callable[[tuple[int, ...], int], nn.Module]  # (shape of one example, classes)
    smallest: int | None = None  # side of the smallest image, or steps of the shortest signal; None: any shape will do
    signals: bool = False  # it takes signals (channels, time), not images (channels, height, width)


MODELS = {
    "mlr": Entry("Logistic regression", "one linear layer: convex, for quick and exact checks", MLR),
    "mlp": Entry("Perceptron", "one hidden layer of 64, for vectors and tiny images", MLP),
    "cnn": Entry("McMahan CNN", "two 5x5 convolutions, a dense layer of 512 (FedAMP, PFedAtt)", CNN, smallest=4),
    "cnn-apple": Entry(
        "APPLE CNN",
        "two 5x5 convolutions without padding, a dense layer of 500 (APPLE)",
        CNNApple,
        smallest=16,
    ),
    "resnet18": Entry(
        "ResNet-18",
        "four stages of two residual blocks with BatchNorm, for colour images (FedAMP on CIFAR-100)",
        ResNet18,
        smallest=8,
    ),
    "cnn1d": Entry(
        "CNN for signals",
        "three convolutions over time and a global mean, for examples of (channels, time)",
        CNN1d,
        smallest=4,
        signals=True,
    ),
}

_WORTH_CONVOLVING = 16  # below 16x16 pixels a perceptron does as well, many times faster
_LONG = 32  # steps from which on an example of two axes is taken for a signal, if it has fewer channels than steps


def resolve(name: str, shape: tuple[int, ...]) -> str:
    """The model that a name means for examples of this shape; only `auto` means different ones."""
    if name == "auto":
        if len(shape) == 2 and shape[1] >= _LONG and shape[0] < shape[1]:
            return "cnn1d"
        return "cnn" if len(shape) == 3 and min(shape[1:]) >= _WORTH_CONVOLVING else "mlp"
    if name not in MODELS:
        raise options.unknown("model", name, ["auto", *MODELS])
    return name


@dataclass(frozen=True)
class BuiltIn:
    """A factory of fresh modules of one listed model. They draw their weights from torch's global generator."""

    name: str
    shape: tuple[int, ...]  # of one example
    outputs: int

    def __call__(self) -> nn.Module:
        return MODELS[self.name].build(self.shape, self.outputs)


def make(name: str, shape: tuple[int, ...], classes: int) -> BuiltIn:
    """A factory of fresh modules. They draw their weights from torch's global generator: seed it before."""
    name = resolve(name, shape)
    entry = MODELS[name]
    smallest, axes = entry.smallest, 2 if entry.signals else 3
    if smallest is not None and (len(shape) != axes or min(shape[1:]) < smallest):
        images = f"images (channels, height, width) of at least {smallest}x{smallest}"
        needed = f"signals (channels, time) of at least {smallest} steps" if entry.signals else images
        raise InputError(
            f"{name} needs {needed}, got examples of shape {tuple(shape)}: choose --model auto, mlp or mlr"
        )
    return BuiltIn(name, tuple(shape), classes)
