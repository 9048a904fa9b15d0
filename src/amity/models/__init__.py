"""Plain modules, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from amity.config import options
from amity.contract import InputError
from amity.models.cnn import CNN
from amity.models.cnn_apple import CNNApple
from amity.models.mlp import MLP
from amity.models.mlr import MLR
from amity.models.resnet import ResNet18

__all__ = ["CNN", "MLP", "MLR", "MODELS", "BuiltIn", "CNNApple", "Entry", "ResNet18", "make", "resolve"]


@dataclass(frozen=True)
class Entry:
    """A model as it is listed."""

    title: str
    description: str
    build: Callable[[tuple[int, ...], int], nn.Module]  # (shape of one example, classes)
    smallest: int | None = None  # side of the smallest image it takes; None: it takes examples of any shape


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
}

_WORTH_CONVOLVING = 16  # below 16x16 pixels a perceptron does as well, many times faster


def resolve(name: str, shape: tuple[int, ...]) -> str:
    """The model that a name means for examples of this shape; only `auto` means different ones."""
    if name == "auto":
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
    smallest = entry.smallest
    if smallest is not None and (len(shape) != 3 or min(shape[1:]) < smallest):
        raise InputError(
            f"{name} needs images (channels, height, width) of at least {smallest}x{smallest}, got examples "
            f"of shape {tuple(shape)}: choose --model auto, mlp or mlr"
        )
    return BuiltIn(name, tuple(shape), classes)
