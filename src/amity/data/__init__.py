"""Data sets, the settings that deal them to silos, and federations of a user's own data.

    formats/    bytes on disk become arrays: csv, npz, parquet, images, idx, CIFAR's records
    schema/     columns, labels and examples of users' own data: what they mean, what is refused, what is remarked
    own/        a user's own silos, from arrays or from a folder
    sets/       published data sets: catalogue, fetching, cache, and how each is built
    settings/   how a data set falls to silos

A `Source` is a data set in memory, `Silos` is a federation dealt from one.
"""

from amity.data.own.arrays import own_silos
from amity.data.sets.entry import SourceEntry
from amity.data.sets.load import load
from amity.data.sets.registry import SOURCES
from amity.data.settings.deal import deal
from amity.data.settings.registry import SETTINGS
from amity.data.settings.setting import Dealt, Setting, SettingEntry
from amity.data.silos import Silos
from amity.data.source import Source

__all__ = [
    "SETTINGS",
    "SOURCES",
    "Dealt",
    "Setting",
    "SettingEntry",
    "Silos",
    "Source",
    "SourceEntry",
    "deal",
    "load",
    "own_silos",
]
