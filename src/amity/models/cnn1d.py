"""A small convolutional network for signals: what matters is that something happens, not when in the window.

Three convolutions over time, each with all channels; the mean over time makes the same number of features of a window
of any length. ReLU comes after the pool, as in cnn.py.
"""

from __future__ import annotations

from torch import nn


class CNN1d(nn.Sequential):
    """32,230 parameters for six channels and six classes, however long the signals are."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        channels, _ = shape
        super().__init__(
            nn.Conv1d(channels, 32, 5, padding=2),
            nn.MaxPool1d(2),
            nn.ReLU(),
            nn.Conv1d(32, 64, 5, padding=2),
            nn.MaxPool1d(2),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, classes),
        )
