"""ResNet-18 (He, Zhang, Ren and Sun, CVPR 2016): four stages of two residual blocks, with BatchNorm.

A block is two 3x3 convolutions added to what went in; where width or size change, the shortcut is a 1x1 convolution
(the paper's option B). Convolutions have no bias, which BatchNorm would take away, and begin as the paper says: normal,
with variance 2 / (k^2 channels out) (He et al., ICCV 2015).

Stems: `imagenet` is the paper's 7x7 convolution with stride 2 and a 3x3 pool with stride 2. `cifar` is for images of
32 pixels, of which the former leaves 8: a 3x3 convolution with stride 1 and no pool.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

_WIDTHS = (64, 128, 256, 512)


class ResNet18(nn.Sequential):
    """11,220,132 parameters for colour images and 100 classes; 9,600 buffers and 20 counters besides."""

    def __init__(self, shape: tuple[int, ...], classes: int, stem: Literal["cifar", "imagenet"] = "cifar") -> None:
        first = _WIDTHS[0]
        opening = [_convolution(shape[0], first, 3) if stem == "cifar" else _convolution(shape[0], first, 7, stride=2)]
        opening += [nn.BatchNorm2d(first), nn.ReLU(inplace=True)]
        opening += [] if stem == "cifar" else [nn.MaxPool2d(3, stride=2, padding=1)]
        stages = [
            block
            for before, width in zip((first, *_WIDTHS), _WIDTHS, strict=False)
            for block in (Block(before, width), Block(width, width))
        ]
        super().__init__(*opening, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_WIDTHS[-1], classes))


class Block(nn.Module):
    """relu(x + f(x)); a wider one halves the picture."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        stride = 1 if before == width else 2
        self.residual = nn.Sequential(
            _convolution(before, width, 3, stride),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3),
            nn.BatchNorm2d(width),
        )
        self.shortcut = (
            nn.Identity()
            if before == width
            else nn.Sequential(_convolution(before, width, 1, stride), nn.BatchNorm2d(width))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out


def _convolution(before: int, width: int, side: int, stride: int = 1) -> nn.Module:
    layer = nn.Conv2d(before, width, side, stride, padding=side // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
