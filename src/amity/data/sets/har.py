"""Human activity recognition (UCI HAR): 30 people with a phone at the waist, six things they do. A person is a silo.

A window is 2.56 seconds at 50 Hz. Neighbouring windows overlap by half, so whole recordings are either trained or
tested on: with windows divided at random, half of a test window would have been seen in training.

`har` has 444 features of each window: means, deviations, energies, correlations, spectra, angles. They were computed by
the makers of the pack after the official list, and are not the official 561; they lie in [-1, 1] by the smallest and
largest values of the whole set, as the official ones do. `har-signals` has the windows themselves: three axes of the
gyroscope (rad/s) and three of the accelerometer (g), as they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from amity.contract import Split
from amity.data.division import Division
from amity.data.sets.entry import SourceEntry
from amity.data.sets.natural_silos import dealing, joined
from amity.data.sets.packs import words
from amity.data.source import Source

FEATURES, CHANNELS, WINDOW = 444, 6, 128

_PEOPLE = ("labels", "silo", "is_test", "label_names", "silo_names")
FEATURE_ARRAYS = ("features", *_PEOPLE)
SIGNAL_ARRAYS = ("signal", "start", *_PEOPLE)


def build_features(entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    """Return the features of every window."""
    return _source(entry, arrays["features"].float(), arrays)


def build_signals(entry: SourceEntry, arrays: Mapping[str, Tensor], _: Division) -> Source:
    """Return the windows, cut out of the recordings."""
    places = arrays["start"].long()[:, None] + torch.arange(WINDOW)  # [n, time]
    windows = arrays["signal"].float()[:, places].transpose(0, 1)  # [n, channels, time]
    return _source(entry, windows, arrays)


def _source(entry: SourceEntry, x: Tensor, arrays: Mapping[str, Tensor]) -> Source:
    people = dealing(arrays["silo"], arrays["is_test"], words(arrays["silo_names"]))
    y = arrays["labels"].long()
    train, test = (Split(x[rows], y[rows]) for rows in map(joined, (people.train, people.test)))
    labels = tuple(name.lower() for name in words(arrays["label_names"]))
    return Source(entry.name, train, test, entry.classes, silos=people.silos, labels=labels, notes=people.notes)
