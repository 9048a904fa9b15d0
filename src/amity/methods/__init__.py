"""The methods, one file each, and the table that names them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from amity.config.options import describe, fields_of, parse, unknown
from amity.config.plugins import Registry
from amity.contract import InputError, Method
from amity.methods.accord import Accord
from amity.methods.apfl import APFL
from amity.methods.apple import Apple
from amity.methods.ditto import Ditto
from amity.methods.fedacs import FedACS
from amity.methods.fedamp import FedAMP
from amity.methods.fedavg import FedAvg
from amity.methods.fedfomo import FedFomo
from amity.methods.fedprox import FedProx
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.l2gd import L2GD
from amity.methods.perfedavg import PerFedAvg
from amity.methods.pfedatt import PFedAtt
from amity.methods.pfedme import PFedMe
from amity.methods.pooled import Pooled
from amity.methods.psgd import PSGD
from amity.methods.psgd_objectives import Mixed, Mixture, Moreau, Pair, Residual, Share
from amity.methods.scaffold import Scaffold
from amity.methods.separate import Separate
from amity.methods.twin import Twin
from amity.methods.vrlsgd import VRLSGD
from amity.methods.wrappers import FineTuned, LocalCopy


class Entry(NamedTuple):
    """A row of the table: what a method is called, where it comes from, how it is made, what it costs."""

    title: str
    paper: str
    make: type
    wrap: type | None = None
    down: str = "d"  # traffic per asked client and round, in scalars; d counts buffers too
    up: str = "d"
    evaluated: str = "its own model"
    for_evaluation: Literal["", "step", "training"] = ""  # local work of every silo before each evaluation
    each_round: str = ""  # local work of a round, where it is not one training
    package: str = ""  # that brings it; empty for Amity's own

    def from_package(self, name: str, package: str) -> Entry:
        """Return this entry as `package` brings it; refuse one that cannot be listed or made."""
        if not all(isinstance(text, str) for text in (self.title, self.paper, self.down, self.up, self.evaluated)):
            raise InputError("title, paper, down, up and evaluated must be text")
        for cls in (self.make, self.wrap):
            if cls is None:
                continue
            if not isinstance(cls, type) or not dataclasses.is_dataclass(cls):
                raise InputError(f"a method must be a dataclass, found {cls!r}")
            missing = [part for part in PARTS if not hasattr(cls, part)]
            if missing:
                raise InputError(f"{cls.__name__} lacks {', '.join(missing)}, which every method has")
            describe(cls)  # fails on types that no option has
        method = self.make()  # every option needs a default
        if self.wrap is not None:
            self.wrap(method)
        return self._replace(package=package)


PARTS = (
    *("init_server", "init_client", "download", "local", "aggregate", "personal"),
    *("paired", "evaluates", "solver", "optimizers"),
)
"""All that a method has to have: see `amity.contract.Method`."""


def _entry(found: object) -> object:
    """The entry of a dataclass that a package names without one: its docstring is its title."""
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        return found
    words = (found.__doc__ or "").strip().partition("\n")[0]
    if not words or words.startswith(f"{found.__name__}("):  # which dataclasses write themselves
        raise InputError(f"{found.__name__} must have a docstring: its first line is what lists say of it")
    return Entry(words.rstrip("."), "-", found)


_FEDAMP = "Huang et al., AAAI 2021"
_PFEDATT = "Ma et al., ACML 2021"
_GENERAL = f"{_PFEDATT}, section 3"
_MCMAHAN = "McMahan et al., AISTATS 2017"
_PROX = "Li et al., MLSys 2020"
_WANG = "Wang et al., 2019"
_GLOBAL = "the global model"
_TUNED = "the global model, fine-tuned"
_TWO_GRADIENTS = "two gradients per step"
_INNER_STEPS = "`inner_steps` gradients per batch"

_BUILT_IN: dict[str, Entry] = {
    "pooled": Entry(
        "one model on all data together, in a simulation only", "-", Pooled, down="-", up="-", evaluated=_GLOBAL
    ),
    "separate": Entry("every silo trains alone", "-", Separate, down="0", up="0"),
    "fedavg": Entry("one global model by averaging", _MCMAHAN, FedAvg, evaluated=_GLOBAL),
    "fedavg-local": Entry("FedAvg, each silo keeps its trained copy", _MCMAHAN, FedAvg, LocalCopy),
    "fedavg-ft": Entry(
        "FedAvg, fine-tuned at each silo", _WANG, FedAvg, FineTuned, evaluated=_TUNED, for_evaluation="training"
    ),
    "fedprox": Entry("FedAvg with a pull towards the global model", _PROX, FedProx, evaluated=_GLOBAL),
    "fedprox-ft": Entry(
        "FedProx, fine-tuned at each silo", _WANG, FedProx, FineTuned, evaluated=_TUNED, for_evaluation="training"
    ),
    "scaffold": Entry(
        "one global model, drift taken out by control variates",
        "Karimireddy et al., ICML 2020",
        Scaffold,
        down="2d",
        up="2d",
        evaluated="its trained copy",
    ),
    "vrlsgd": Entry(
        "local SGD with variance reduction",
        "Liang et al., 2019",
        VRLSGD,
        down="d; 2d when a silo is back that missed a round",
        up="d + 1",
        evaluated="its trained copy",
    ),
    "apfl": Entry(
        "a mixture of a local model and the global one",
        "Deng et al., 2020",
        APFL,
        evaluated="its mixture of local and global model",
        each_round=_TWO_GRADIENTS,
    ),
    "ditto": Entry("personal models held near a global one", "Li et al., ICML 2021", Ditto, each_round="two trainings"),
    "pfedme": Entry(
        "proximal points of a global model of envelopes", "Dinh et al., NeurIPS 2020", PFedMe, each_round=_INNER_STEPS
    ),
    "perfedavg": Entry(
        "a global model that one local step personalises",
        "Fallah et al., NeurIPS 2020",
        PerFedAvg,
        evaluated="the global model, after one step",
        for_evaluation="step",
        each_round="two gradients per step, or four (HF)",
    ),
    "fedfomo": Entry(
        "models weighed by their gain on validation data",
        "Zhang et al., ICLR 2021",
        FedFomo,
        down="M d + M indices",
        up="d + M indices + M + 1 scores",
    ),
    "fedamp": Entry("attention by distance between models", _FEDAMP, FedAMP),
    "heurfedamp": Entry("attention by cosine between models", _FEDAMP, HeurFedAMP),
    "pfedatt": Entry("attention to the k most similar silos", _PFEDATT, PFedAtt),
    "fedacs": Entry("averaging above a quantile of cosines", "Chen et al., ICASSP 2024", FedACS),
    "accord": Entry(
        "a common model with momentum, a personal one beside it, and each silo goes on from the better",
        "Amity",
        Accord,
        evaluated="the better of its own and the common model",
        each_round="two trainings",
    ),
    "twin": Entry(
        "not recommended, harms on natural silos: attention by cosine from the mean model",
        "Amity",
        Twin,
        evaluated="the better of its own and its cloud model",
    ),
    "apple": Entry(
        "learnt, signed weights over all silos' core models",
        "Luo and Wu, IJCAI 2022",
        Apple,
        down="M d, from round 2 on",
        up="d + M indices",
        evaluated="its mixture of cores",
    ),
    "l2gd": Entry(
        "personal models near their mean, by coins for local and averaging steps",
        "Hanzely and Richtarik, 2020",
        L2GD,
        each_round="a random number of steps",
        down="d + 2, buffers apart; from round 2 on",
        up="d, buffers apart",
    ),
    "psgd-share": Entry(
        "some layers shared, the others local (FedPer, LG-FedAvg)",
        _GENERAL,
        Share,
        PSGD,
        down="d0, the shared layers",
        up="d0",
        evaluated="its copy of the shared layers with its own",
    ),
    "psgd-residual": Entry(
        "a shared model plus a personal correction",
        _GENERAL,
        Residual,
        PSGD,
        down="d, buffers apart",
        up="d, buffers apart",
        evaluated="its copy of the shared model plus its correction",
    ),
    "psgd-mixture": Entry(
        "personal models pulled towards a shared one, which follows them",
        _GENERAL,
        Mixture,
        PSGD,
        down="d, buffers apart",
        up="d, buffers apart",
    ),
    "psgd-moreau": Entry(
        "a shared model of Moreau envelopes",
        _GENERAL,
        Moreau,
        PSGD,
        each_round=_INNER_STEPS,
        down="d, buffers apart",
        up="d, buffers apart",
    ),
    "psgd-apfl": Entry(
        "a shared model, and a mixture of it with a personal one",
        _GENERAL,
        Mixed,
        PSGD,
        each_round=_TWO_GRADIENTS,
        evaluated="its mixture",
    ),
    "psgd-mtl": Entry(
        "a shared model, and a personal one pulled towards it", _GENERAL, Pair, PSGD, each_round=_TWO_GRADIENTS
    ),
}


METHODS = Registry("amity.methods", Entry, "method", _BUILT_IN, made=_entry)
"""The methods by name: Amity's own, then those of other packages."""


def trainings_ahead(name: str, settings: Mapping[str, Any], epochs: int) -> float:
    """How many local trainings an evaluated model has had beyond one for every round.

    A fine-tuned model of round k has had k + 1, at every silo, also at one that dropped out of that round.
    """
    if entry_of(name).for_evaluation != "training":
        return 0.0
    own = settings.get("ft_epochs", "same")
    return 1.0 if own == "same" else own / epochs


def known_options(name: str) -> dict[str, type]:
    """Every option key of a method, with the dataclass that has it."""
    entry = entry_of(name)
    classes = [entry.make] if entry.wrap is None else [entry.wrap, entry.make]
    return {key: cls for cls in classes for key in fields_of(cls)}


def entry_of(name: str) -> Entry:
    """The row of the table that a name stands for; InputError where there is none, or its package cannot be used."""
    return METHODS.entry(name)


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
