"""Dealing a data set to silos by a setting."""

from __future__ import annotations

from torch import Tensor

from amity.contract import InputError, Silo, Split
from amity.data.schema.remarks import on_silos
from amity.data.settings.registry import SETTINGS, read, resolve, written
from amity.data.silos import Silos
from amity.data.source import FOLDER, Source, scale_pixels
from amity.learn.streams import stream


def deal(source: Source, setting: str, clients: int | None, seed: int) -> Silos:
    """Deal a data set to silos. The same four values always give the same silos.

    `setting` is a name, or `NAME:key=value,...`. Without a number of clients, there are as many as the data have silos
    of their own where the setting asks for these, else the setting's usual number.

    >>> silos = amity.deal(amity.load("digits"), "practical", clients=20, seed=0)
    >>> [silo.name for silo in silos.silos[:3]], silos.silos[0].group
    (['silo-00', 'silo-01', 'silo-02'], 0)
    """
    name, rule = read(resolve(setting, source.name))
    entry = SETTINGS[name]
    if clients is None:
        clients = len(source.silos) if name == "natural" and source.silos else entry.clients
    if clients < 1:
        raise InputError(f"a federation needs at least 1 client, got {clients}: raise --clients")
    if source.classes == 0 and name not in ("iid", "natural"):
        raise InputError(
            f"{name} deals by classes, the labels of {source.name} are quantities: choose iid or natural, "
            "or --labels classes if they are classes"
        )
    own = source.name.startswith(FOLDER)
    data = "folder" if own else source.name  # wherever it lies, and however that is written
    dealt = rule.deal(source, clients, stream(seed, f"setting/{data}/{name}"))
    width = max(2, len(str(clients - 1)))
    tested = source.train if dealt.held_out else source.test
    names = dealt.names or [f"silo-{i:0{width}d}" for i in range(clients)]
    silos = tuple(
        Silo(called, _part(source.train, train), _part(tested, test), group=group)
        for called, train, test, group in zip(names, dealt.train, dealt.test, dealt.groups, strict=True)
    )
    for silo in silos:
        if not len(silo.train.y) or not len(silo.test.y):
            todo = "add some" if name == "natural" else f"lower --clients, got {clients}"
            raise InputError(
                f"{name} on {source.name} left {silo.name} with {len(silo.train.y)} training and "
                f"{len(silo.test.y)} test examples, each needs one: {todo}"
            )
    return Silos(
        silos,
        source.classes,
        source.name,
        written(name, rule),
        (*source.notes, *dealt.notes, *(on_silos(silos, source.classes) if own else ())),
        source.labels,
        entry.participation,
        source.label,
        source.features,
        source.schema,
        source.account,
        pixels=True,
    )


def _part(split: Split, index: Tensor) -> Split:
    return Split(scale_pixels(split.x[index]), split.y[index])
