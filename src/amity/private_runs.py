"""Runs under differential privacy: what is refused because no epsilon would cover it, and what has to be said."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Generator
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from amity.config.ending import has_ending
from amity.config.run import Run
from amity.contract import InputError, gradients_of
from amity.federation.plan import Plan
from amity.federation.spending import terms_of
from amity.learn.accounting import Use, epsilon_of, require_opacus
from amity.learn.task import Task


def check_private(run: Run, plan: Plan) -> None:
    """Refuse a resolved run with differential privacy whose epsilon would not be the whole truth."""
    if plan.privacy is None:
        return
    require_opacus()
    if has_ending(vars(run)):
        raise InputError(
            "differential privacy cannot account for an ending, in which silos choose by held-out examples: "
            "set ending to none and safe to false"
        )
    gradients_of(plan.method, 1, 1)
    if run.class_weights != "none":
        raise InputError(
            "differential privacy cannot account for class weights, which are counted from a silo's labels: "
            "leave class_weights at none"
        )
    if run.train_loss:
        raise InputError(
            "differential privacy cannot account for train_loss, which tells the loss on training examples: "
            "leave it out"
        )
    if name := _normaliser(plan.task):
        raise InputError(
            f"differential privacy needs a model in which every example counts for itself, this one has {name}, whose "
            "statistics mix examples: choose a model without, mlp or cnn, or use GroupNorm"
        )
    for client in range(plan.fed.clients):
        terms = terms_of(plan, client)
        epsilon_of(
            [Use(terms.noise, terms.rate, min(1, terms.most))], terms.delta
        )  # now: it refuses noise that is none


def refuse_trials(run: Run, who: str) -> None:
    """Refuse to train on the same examples again and again under a promise that counts one training."""
    if run.privacy is not None:
        raise InputError(
            f"{who} trains many times on the same examples, which the epsilon of one run does not cover: "
            "leave the noise out, on data that need none, and run with what was found"
        )


def private_notes(plan: Plan, *, scaled: bool, standardised: bool) -> Iterator[str]:
    """What has to be said before a run with differential privacy begins: what its epsilon does not cover."""
    if plan.privacy is None:
        return
    if scaled:
        yield (
            "epsilon does not cover how columns are scaled and coded, which follows from all silos' rows: "
            "give a schema of your own, or tell nobody the one that is found"
        )
    if standardised:
        yield "epsilon does not cover the unit of a silo's quantities, which follows from its labels and stays there"


def _normaliser(task: Task) -> str:
    """The kind of a layer that keeps statistics over examples; nothing where there is none."""
    layers = [layer for layer in task.module(task.init(Generator())).modules() if isinstance(layer, _NormBase)]
    mixing = (layer for layer in layers if isinstance(layer, _BatchNorm) or layer.track_running_stats)
    return next((type(layer).__name__ for layer in mixing), "")
