"""Runs whose server protects silos from each other (`robust`, `min_mix`): what is refused before they begin."""

from __future__ import annotations

from amity import methods
from amity.config.references import REFERENCES
from amity.config.robust import MEANS
from amity.config.run import Run
from amity.contract import InputError, Method, averaged_keys


def check_robust(run: Run, label: str, method: Method) -> None:
    """Refuse a robust mean where the method's server takes no mean that it could replace."""
    if run.robust in MEANS and label not in REFERENCES and not averaged_keys(method):
        raise InputError(
            f"robust {run.robust} needs a method whose server averages models, got {label}: take norm, for every method"
        )


def check_mix(run: Run, name: str, sampled: tuple[int, int]) -> None:
    """Refuse a run that cannot mix as many silos' models as it is asked to: no round would come to anything."""
    if run.min_mix == 1 or name in REFERENCES:
        return
    if name in methods.METHODS and methods.METHODS[name].hands_on:
        raise InputError(
            f"min_mix needs a method that mixes models at the server, got {name}, which hands them on as they are: "
            "choose another method, or leave min_mix at 1"
        )
    if run.min_mix >= (uploads := sampled[0] - sampled[1]):
        raise InputError(f"min_mix {run.min_mix} needs as many others in a round, there are {uploads - 1}: choose less")
