"""How a data set falls to silos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from amity import options
from amity.contract import InputError, Silo, Split
from amity.data.apple import PathologicalApple, Shards
from amity.data.dealing import Setting
from amity.data.dirichlet import Dirichlet, Many, Scarce
from amity.data.iid import Iid
from amity.data.natural import Natural
from amity.data.pathological import Pathological
from amity.data.practical import Practical
from amity.data.silos import Silos
from amity.data.sources import FOLDER, SOURCES, Source, scaled
from amity.streams import stream


@dataclass(frozen=True)
class Entry:
    """A setting as it is listed."""

    title: str
    paper: str
    description: str
    make: type[Setting]
    clients: int = 20  # unless a run says otherwise
    participation: float = 1.0  # the share of silos sampled in each round, unless a run says otherwise


def resolve(setting: str, data: str) -> str:
    """The setting that is meant for a data set, options and all; only `auto` means different ones."""
    if setting == "auto":
        own = data.startswith(FOLDER) or (data in SOURCES and SOURCES[data].natural)
        return "natural" if own else "practical"
    read(setting)
    return setting


def read(text: str) -> tuple[str, Setting]:
    """A setting by name, or by name and options: `dirichlet:alpha=0.1,axis=client`."""
    name, colon, rest = text.strip().partition(":")
    if name not in SETTINGS:
        raise options.unknown("setting", name, SETTINGS)
    make = SETTINGS[name].make
    known = options.fields_of(make)
    given: dict[str, Any] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not key:
            raise InputError(f"a setting is NAME:key=value,key=value, got {text!r}: try dirichlet:alpha=0.1")
        if not known:
            raise InputError(f"the setting {name} has no options, got {key!r}: leave it out")
        if key not in known:
            raise options.unknown(f"option of {name}", key, known)
        if known[key].name in given:
            raise InputError(f"a setting's options are given once, got {key} twice: leave one out")
        given[known[key].name] = options.parse(make, key, value)
    return name, make(**given)


def written(name: str, setting: Setting) -> str:
    """A setting with all its options, as `read` takes it."""
    values = {key: getattr(setting, field.name) for key, field in options.fields_of(type(setting)).items()}
    words = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items())
    return f"{name}:{','.join(words)}" if values else name


def options_of(name: str) -> list[Mapping[str, Any]]:
    """The options of a setting, as data."""
    return options.describe(SETTINGS[name].make)


def deal(source: Source, setting: str, clients: int | None, seed: int) -> Silos:
    """A data set dealt to silos. The same four values give the same silos, always.

    `setting` is a name, or `NAME:key=value,...`. No number of clients: as many as the data have silos of their own
    where these are asked for, else the setting's own number.
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
    data = "folder" if source.name.startswith(FOLDER) else source.name  # wherever it lies, and however that is written
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
        (*source.notes, *dealt.notes),
        source.labels,
        entry.participation,
    )


def _part(split: Split, index: Tensor) -> Split:
    return Split(scaled(split.x[index]), split.y[index])


_FEDAMP = "Huang et al., AAAI 2021"
_APPLE = "Luo and Wu, IJCAI 2022"
_FEDACS = "FedACS, section 3.2"

SETTINGS = {
    "iid": Entry("IID", "-", "equal random parts: every silo sees the same distribution", Iid),
    "pathological": Entry("Pathological", "McMahan et al., AISTATS 2017", "two classes per silo", Pathological),
    "practical": Entry(
        "Practical",
        _FEDAMP,
        "groups of silos: 80 % of the data from a group's own classes, 20 % from all others",
        Practical,
    ),
    "shards": Entry(
        "Shards",
        _APPLE,
        "of every class one silo has 80 %, one 10 %, and the others share 10 %: 1 % each of 12",
        Shards,
        clients=12,
    ),
    "pathological-apple": Entry(
        "Pathological, APPLE's",
        _APPLE,
        "two classes per silo, random shares of them",
        PathologicalApple,
        clients=12,
    ),
    "dirichlet": Entry("Dirichlet", _FEDACS, "random shares of every class, equal or not by alpha", Dirichlet),
    "scarce": Entry("Scarce", _FEDACS, "random shares of every class, and 50 training examples per silo", Scarce),
    "many": Entry(
        "Many",
        _FEDACS,
        "random shares of every class over 500 silos, a tenth of them sampled in each round",
        Many,
        clients=500,
        participation=0.1,
    ),
    "natural": Entry("Natural", "-", "the data set's own silos: heart's hospitals, a folder's silos", Natural),
}
