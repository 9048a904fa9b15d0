"""The methods, one file each, and the table that names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from amity.contract import Method
from amity.methods.apple import Apple
from amity.methods.fedacs import FedACS
from amity.methods.fedamp import FedAMP
from amity.methods.fedavg import FedAvg
from amity.methods.fedprox import FedProx
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.pfedatt import PFedAtt
from amity.methods.separate import Separate
from amity.methods.wrappers import FineTuned, LocalCopy
from amity.options import describe, fields_of, parse, unknown


class Entry(NamedTuple):
    """A row of the table: what a method is called, where it comes from, how it is made, what it costs."""

    title: str
    paper: str
    make: type
    wrap: type | None = None
    down: str = "d"  # traffic per asked client and round, in scalars; d counts buffers too
    up: str = "d"
    evaluated: str = "its own model"


_FEDAMP = "Huang et al., AAAI 2021"
_MCMAHAN = "McMahan et al., AISTATS 2017"
_PROX = "Li et al., MLSys 2020"
_WANG = "Wang et al., 2019"
_GLOBAL = "the global model"
_TUNED = "the global model, fine-tuned"

METHODS: dict[str, Entry] = {
    "separate": Entry("every silo trains alone", "-", Separate, down="0", up="0"),
    "fedavg": Entry("one global model by averaging", _MCMAHAN, FedAvg, evaluated=_GLOBAL),
    "fedavg-local": Entry("FedAvg, each silo keeps its trained copy", _MCMAHAN, FedAvg, LocalCopy),
    "fedavg-ft": Entry("FedAvg, fine-tuned at each silo", _WANG, FedAvg, FineTuned, evaluated=_TUNED),
    "fedprox": Entry("FedAvg with a pull towards the global model", _PROX, FedProx, evaluated=_GLOBAL),
    "fedprox-ft": Entry("FedProx, fine-tuned at each silo", _WANG, FedProx, FineTuned, evaluated=_TUNED),
    "fedamp": Entry("attention by distance between models", _FEDAMP, FedAMP),
    "heurfedamp": Entry("attention by cosine between models", _FEDAMP, HeurFedAMP),
    "pfedatt": Entry("attention to the k most similar silos", "PFedAtt", PFedAtt),
    "fedacs": Entry("averaging above a quantile of cosines", "FedACS", FedACS),
    "apple": Entry(
        "learnt, signed weights over all silos' core models",
        "Luo and Wu, IJCAI 2022",
        Apple,
        down="M d, from round 2 on",
        up="d + M indices",
        evaluated="its mixture of cores",
    ),
}


def known_options(name: str) -> dict[str, type]:
    """Every option key of a method, with the dataclass that has it."""
    entry = entry_of(name)
    classes = [entry.make] if entry.wrap is None else [entry.wrap, entry.make]
    return {key: cls for cls in classes for key in fields_of(cls)}


def entry_of(name: str) -> Entry:
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def options_of(name: str) -> list[Mapping[str, Any]]:
    """The options of a method, wrapper's first, as data."""
    entry = entry_of(name)
    wrapped = [] if entry.wrap is None else describe(entry.wrap)
    return [*wrapped, *describe(entry.make)]


def parse_option(name: str, key: str, text: str) -> Any:
    """Read one of a method's options from text."""
    owners = known_options(name)
    if key not in owners:
        raise unknown(f"option of {name}", key, owners)
    return parse(owners[key], key, text)


def build(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method with these option values; everything else is at its default."""
    entry = entry_of(name)
    owners = known_options(name)
    for key in settings or {}:
        if key not in owners:
            raise unknown(f"option of {name}", key, owners)

    def arguments(cls: type) -> dict[str, Any]:
        return {fields_of(cls)[key].name: value for key, value in (settings or {}).items() if owners[key] is cls}

    method: Method = entry.make(**arguments(entry.make))
    return method if entry.wrap is None else entry.wrap(method, **arguments(entry.wrap))


def settings_of(method: Method) -> dict[str, Any]:
    """Every field of a method, a wrapped one's too, so that a record can say what was run."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(method):  # type: ignore[arg-type]
        value = getattr(method, field.name)
        if dataclasses.is_dataclass(value):
            out.update(settings_of(value))  # type: ignore[arg-type]
        else:
            out[field.metadata.get("key") or field.name] = value
    return out
