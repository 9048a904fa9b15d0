"""The table of settings that can be named, and the text that names one: `NAME` or `NAME:key=value,...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amity.config import options
from amity.config.plugins import Registry
from amity.contract import InputError
from amity.data.sets.registry import SOURCES
from amity.data.settings.apple_paper import PathologicalApple, Shards
from amity.data.settings.dirichlet import Dirichlet, Many, Scarce
from amity.data.settings.iid import Iid
from amity.data.settings.natural import Natural
from amity.data.settings.pathological import Pathological
from amity.data.settings.practical import Practical
from amity.data.settings.setting import Setting, SettingEntry
from amity.data.source import FOLDER

_FEDAMP = "Huang et al., AAAI 2021"
_APPLE = "Luo and Wu, IJCAI 2022"
_FEDACS = "FedACS, section 3.2"

_ALL = {
    "iid": SettingEntry("IID", "-", "equal random parts: every silo sees the same distribution", Iid),
    "pathological": SettingEntry("Pathological", "McMahan et al., AISTATS 2017", "two classes per silo", Pathological),
    "practical": SettingEntry(
        "Practical",
        _FEDAMP,
        "groups of silos: 80 % of the data from a group's own classes, 20 % from all others",
        Practical,
    ),
    "shards": SettingEntry(
        "Shards",
        _APPLE,
        "of every class one silo has 80 %, one 10 %, and the others share 10 %: 1 % each of 12",
        Shards,
        clients=12,
    ),
    "pathological-apple": SettingEntry(
        "Pathological, APPLE's",
        _APPLE,
        "two classes per silo, random shares of them",
        PathologicalApple,
        clients=12,
    ),
    "dirichlet": SettingEntry("Dirichlet", _FEDACS, "random shares of every class, equal or not by alpha", Dirichlet),
    "scarce": SettingEntry(
        "Scarce", _FEDACS, "random shares of every class, and 50 training examples per silo", Scarce
    ),
    "many": SettingEntry(
        "Many",
        _FEDACS,
        "random shares of every class over 500 silos, a tenth of them sampled in each round",
        Many,
        clients=500,
        participation=0.1,
    ),
    "natural": SettingEntry(
        "Natural", "-", "the data set's own silos: hospitals, people, schools, a folder's silos", Natural
    ),
}
SETTINGS = Registry("amity.settings", SettingEntry, "setting", _ALL, reserved=["auto"])
"""Every setting by name: Amity's own, then those of other packages."""


def resolve(setting: str, data: str) -> str:
    """Return the setting that is meant for a data set, with its options; only `auto` depends on the data."""
    if setting == "auto":
        own = data.startswith(FOLDER) or (data in SOURCES and SOURCES[data].natural)
        return "natural" if own else "practical"
    read(setting)
    return setting


def read(text: str) -> tuple[str, Setting]:
    """Return the name and the setting that a text means: `dirichlet`, or `dirichlet:alpha=0.1,axis=client`."""
    name, colon, rest = text.strip().partition(":")
    make = SETTINGS.entry(name).make
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
    """Return a setting with all its options as text, in the form that `read` takes."""
    values = {key: getattr(setting, field.name) for key, field in options.fields_of(type(setting)).items()}
    words = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items())
    return f"{name}:{','.join(words)}" if values else name


def options_of(name: str) -> list[Mapping[str, Any]]:
    """Return the options of a setting, each with its type, default, range and help."""
    return options.describe(SETTINGS[name].make)
