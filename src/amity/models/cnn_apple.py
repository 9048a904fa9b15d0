"""The convolutional network of APPLE (Luo and Wu, IJCAI 2022): LeNet-like, without padding; see cnn.py on ReLU."""

from __future__ import annotations

from torch import nn

from amity.models.fourier import TwoConvolutions


class CNNApple(TwoConvolutions):
    """431,080 parameters for 28x28 grey images and 10 classes."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        channels, height, width = shape
        super().__init__(
            nn.Conv2d(channels, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(50 * _remaining(height) * _remaining(width), 500),
            nn.ReLU(),
            nn.Linear(500, classes),
        )


def _remaining(side: int) -> int:
    """What two rounds of a 5x5 convolution and a pool leave of a side; 16 leave 1."""
    return ((side - 4) // 2 - 4) // 2
