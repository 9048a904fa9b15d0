"""The convolutional network of McMahan et al. (AISTATS 2017), which FedAMP and PFedAtt train too.

ReLU comes after the pool: the largest of four, cut at 0, is the largest of the four cut ones, so values and
gradients are the same (where all four are negative, both are 0) for a quarter of the work.
"""

from __future__ import annotations

from torch import Tensor, nn

from amity.models.fourier import convolve_pool_relu, through


class CNN(nn.Sequential):
    """1,663,370 parameters for 28x28 grey images and 10 classes."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        channels, height, width = shape
        super().__init__(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )

    def forward(self, input: Tensor) -> Tensor:
        layers = list(self)
        second = layers[3]
        assert isinstance(second, nn.Conv2d)
        return through(layers[6:], convolve_pool_relu(second, through(layers[:3], input)))
