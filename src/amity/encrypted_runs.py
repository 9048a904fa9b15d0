"""Runs on encrypted models: which methods can be run so, and what is refused."""

from __future__ import annotations

from amity.config.references import REFERENCES
from amity.config.run import Run
from amity.contract import InputError, Method
from amity.learn.ciphers import require_tenseal
from amity.methods.encrypted import Encrypted
from amity.methods.fedacs import FedACS
from amity.methods.fedamp import FedAMP
from amity.methods.heurfedamp import HeurFedAMP
from amity.methods.twin import Twin

ENCRYPTED = ("fedamp", "heurfedamp", "fedacs", "twin")
"""Methods whose server needs distances and angles of models alone, and mixes them with weights that sum to 1."""


def encrypted(run: Run, label: str, bare: Method, method: Method) -> Method:
    """Return the method as a run has it: on encrypted models where that is asked for. `bare`: without its ending."""
    if not run.encrypted or label in REFERENCES:  # in which nothing is sent
        return method
    if not isinstance(bare, FedAMP | HeurFedAMP | FedACS | Twin):
        raise InputError(f"encrypted needs a method of attention by distance or angle, got {label}: take {_listed()}")
    require_tenseal()
    if bare.init == "independent":
        raise InputError("encrypted needs one first model for all, got init=independent: leave it at shared")
    if run.robust != "off":
        raise InputError(
            f"encrypted and robust exclude each other, got robust {run.robust}: a server that cannot read models "
            "cannot look for bad ones, leave it at off"
        )
    if run.engine == "stacked":
        raise InputError("encrypted has no stacked engine, every silo encrypts by itself: use auto or loop")
    if run.device != "cpu":
        raise InputError(f"encrypted computes on the CPU, got device {run.device}: leave it at cpu")
    if run.matrix_dir != "none":
        raise InputError("encrypted has no matrices of models, got matrix_dir: leave it out")
    angles = isinstance(bare, FedACS) or (isinstance(bare, HeurFedAMP) and bare.similarity_on == "params")
    return Encrypted(method, raw=angles)


def _listed() -> str:
    *names, last = ENCRYPTED
    return f"{', '.join(names)} or {last}"
