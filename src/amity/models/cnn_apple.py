"""The convolutional network of APPLE (Luo and Wu, IJCAI 2022): LeNet-like, without padding; see cnn.py on ReLU."""

from __future__ import annotations

from torch import Tensor, nn

from amity.models.fourier import convolve_pool_relu, through


class CNNApple(nn.Sequential):
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

    def forward(self, input: Tensor) -> Tensor:
        layers = list(self)
        second = layers[3]
        assert isinstance(second, nn.Conv2d)
        return through(layers[6:], convolve_pool_relu(second, through(layers[:3], input)))


def _remaining(side: int) -> int:
    """What two rounds of a 5x5 convolution and a pool leave of a side; 16 leave 1."""
    return ((side - 4) // 2 - 4) // 2
