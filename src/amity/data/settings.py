"""How a data set falls to silos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from amity import options
from amity.contract import InputError, Silo, Split
from amity.data.dealing import Dealt, too_many
from amity.data.natural import natural
from amity.data.pathological import pathological
from amity.data.practical import practical
from amity.data.silos import Silos
from amity.data.sources import FOLDER, SOURCES, Source, scaled
from amity.streams import stream


@dataclass(frozen=True)
class Entry:
    """A setting as it is listed."""

    title: str
    description: str
    deal: Callable[[Source, int, Generator], Dealt]


CLIENTS = 20
"""Silos, where nobody says how many and the data do not either."""


def resolve(setting: str, data: str) -> str:
    """The setting that a name means for a data set; only `auto` means different ones."""
    if setting == "auto":
        own = data.startswith(FOLDER) or (data in SOURCES and SOURCES[data].natural)
        return "natural" if own else "practical"
    if setting not in SETTINGS:
        raise options.unknown("setting", setting, SETTINGS)
    return setting


def deal(source: Source, setting: str, clients: int | None, seed: int) -> Silos:
    """A data set dealt to silos. The same four values give the same silos, always.

    No number of clients: as many as the data have silos of their own, else 20.
    """
    setting = resolve(setting, source.name)
    if clients is None:
        clients = len(source.silos) if setting == "natural" and source.silos else CLIENTS
    if clients < 1:
        raise InputError(f"a federation needs at least 1 client, got {clients}: raise --clients")
    dealt = SETTINGS[setting].deal(source, clients, stream(seed, f"setting/{source.name}/{setting}"))
    width = max(2, len(str(clients - 1)))
    names = dealt.names or [f"silo-{i:0{width}d}" for i in range(clients)]
    silos = tuple(
        Silo(name, _part(source.train, train), _part(source.test, test), group=group)
        for name, train, test, group in zip(names, dealt.train, dealt.test, dealt.groups, strict=True)
    )
    for silo in silos:
        if not len(silo.train.y) or not len(silo.test.y):
            raise InputError(
                f"{setting} on {source.name} left {silo.name} with {len(silo.train.y)} training and "
                f"{len(silo.test.y)} test examples, each needs one: lower --clients, got {clients}"
            )
    return Silos(silos, source.classes, source.name, setting, (*source.notes, *dealt.notes), source.labels)


def _part(split: Split, index: Tensor) -> Split:
    return Split(scaled(split.x[index]), split.y[index])


def iid(source: Source, clients: int, rng: Generator) -> Dealt:
    """Shuffled and split equally, train and test alike."""
    most = min(len(source.train.y), len(source.test.y))
    if clients > most:
        raise too_many("iid", source.name, most, clients)
    train, test = (
        [part.sort().values for part in torch.randperm(len(split.y), generator=rng).tensor_split(clients)]
        for split in (source.train, source.test)
    )
    return Dealt(train, test, [0] * clients)


SETTINGS = {
    "iid": Entry("IID", "equal random parts: every silo sees the same distribution", iid),
    "pathological": Entry("Pathological", "two classes per silo", pathological),
    "practical": Entry(
        "Practical",
        "groups of silos: 80 % of the data from a group's two classes, 20 % from all others",
        practical,
    ),
    "natural": Entry("Natural", "the data set's own silos: heart's hospitals, a folder's silos", natural),
}
