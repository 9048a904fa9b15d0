"""From a run and a roster to a plan: the one place where every `auto` ends.

`resolve` looks at no data. What it needs of a silo stands in the roster (`federation.plan.Member`), so that the server
and each silo come to the same plan by themselves: the batch size from the median silo, the classes as the union, the
share of validation data from the method.
"""

from __future__ import annotations

import copy
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from amity import methods, models
from amity.config.references import ALONE, REFERENCES
from amity.config.run import Run
from amity.contract import InputError, Method, Particular, ProposesEnding, Solver, Validating
from amity.encrypted_runs import encrypted
from amity.federation.participation import sampled_of
from amity.federation.plan import Member, Plan, federation_of
from amity.learn.task import Task
from amity.methods.ended import Length, with_ending
from amity.methods.pooled import Pooled
from amity.metric import Metric, main_metric
from amity.private_runs import check_private
from amity.protected_runs import check_mix, check_robust

RATES = {"adam": 1e-3, "sgd": 1e-2}
"""Rates of an optimiser that is not the method's own, where none is given."""

Builds = Callable[[], nn.Module] | nn.Module
"""A function that builds a model, or a model whose weights everybody starts from."""


class Resolved(NamedTuple):
    """A run without any `auto`, and the plan that follows from it."""

    run: Run
    plan: Plan


def resolve(
    run: Run, roster: Sequence[Member], *, model: Builds | None = None, method: Method | None = None
) -> Resolved:
    """The plan of a run with these silos: a pure function, the same at the server and at each silo."""
    label, built = method_of(run, method)
    shape, classes = _agreed(roster)
    metric = main_metric(run.metric, classes)
    name, task = _task(run, shape, classes, model, metric)
    solver = solver_of(run, label, built, [member.size for member in roster])
    if isinstance(built, Particular):
        built.accept(solver)
    check_robust(run, label, built)
    share = 1.0 if run.participation == "auto" else run.participation
    check_mix(run, label, sampled_of(replace(run.who, participation=share), len(roster)))
    if isinstance(built, Pooled):  # after the batch size, which follows the silos' own sizes
        roster, share = _pooled(run, share, roster), 1.0
    _check_batches(task, roster, solver)
    resolved = replace(
        run,
        method=label,
        clients=len(roster),
        model=name,
        batch=solver.batch,
        lr=solver.rate,
        optimizer=solver.optimizer,
        momentum=solver.momentum,
        val_fraction=validation_of(run, label, built, roster),
        metric=metric.key,
        participation=share,
        ending=length_of(run, built),
        dp_clip=run.dp_clip if run.privacy is None else run.privacy.clip,
        settings=methods.settings_of(built),
    )
    fed = federation_of(roster, resolved.all_rounds, run.seed, run.min_mix)
    ended = encrypted(run, label, built, with_its_ending(run, built))
    plan = Plan(ended, task, fed, solver, resolved.who, robust=run.robust, privacy=run.privacy, min_count=run.min_count)
    check_private(resolved, plan)
    return Resolved(resolved, plan)


def alone_of(run: Run, method: Method | None = None) -> Run:
    """The run to measure this one by: every silo trains alone, with the same options.

    Its solver is that of `separate`, as in every comparison. A rate or momentum that was given belongs to the method's
    own optimiser, which is then taken with it. Nobody is absent from its own training: all silos train in every round,
    and go on to their own end where the method lets them.
    """
    own = method_of(run, method)[1]
    optimizer = run.optimizer
    if optimizer == "auto" and (run.lr != "auto" or run.momentum != "auto"):
        optimizer = own.solver.optimizer
    ending: Length = "auto" if run.safe else length_of(run, own)
    batch = own.solver.batch if isinstance(own, ProposesEnding) and run.batch == "auto" else run.batch
    return replace(
        run,
        method=ALONE,
        settings={},
        optimizer=optimizer,
        batch=batch,
        participation=1.0,
        drop=0.0,
        ending=ending,
        safe=False,
        robust="off",
        min_count=1,  # nothing leaves a silo that is alone
        encrypted=False,
        dp_noise="none",
        dp_epsilon="none",
        dp_clip="auto",
        dp_delta="auto",
    )


def fair_references(runs: Sequence[Run]) -> list[Run]:
    """The runs of a comparison, where those to compare with get an ending too if any of the others has one."""
    others = [run for run in runs if run.method not in REFERENCES]
    ended = any(run.safe or length_of(run, method_of(run)[1]) != "none" for run in others)
    return [
        replace(run, ending="auto") if ended and run.method in REFERENCES and run.ending == "default" else run
        for run in runs
    ]


def method_of(run: Run, method: Method | None = None) -> tuple[str, Method]:
    """The method that a run names, or one of the user's own, and what it is called."""
    if method is None:
        return run.method, methods.build(run.method, run.settings)
    _check_method(method)
    if run.settings:
        raise InputError("settings go to a method named in the run, got a method of your own: set its fields instead")
    return type(method).__name__.lower(), method


def length_of(run: Run, method: Method) -> Length:
    """How long silos go on alone after the last round: what the run says, or what the method proposes.

    With `safe` to their own end: a model that has not had one is put beside one that has, and would lose for that.
    """
    if run.ending != "default":
        return run.ending
    if run.safe:
        return "auto"
    return method.ending if isinstance(method, ProposesEnding) else "none"


def with_its_ending(run: Run, method: Method) -> Method:
    """The method as it is run: with the ending that is asked for, where there is one."""
    return with_ending(method, run.rounds, run.epochs, length_of(run, method), run.safe)


def validation_of(run: Run, name: str, bare: Method, roster: Sequence[Member]) -> float:
    """The share of training data that a silo sets aside, where it brings no validation data of its own."""
    method = with_its_ending(run, bare)
    needs = method.validation if isinstance(method, Validating) else 0.0
    if run.val_fraction == "auto":
        return needs
    if needs and not run.val_fraction and not all(member.validates for member in roster):
        raise InputError(f"{name} needs validation data, got val_fraction 0: leave it at auto ({needs:g})")
    return run.val_fraction


def solver_of(run: Run, name: str, method: Method, sizes: Sequence[int]) -> Solver:
    """The method's own protocol, with what the run asks for in its place."""
    own = method.solver
    if run.optimizer not in ("auto", *method.optimizers):
        rule = f"{name} needs the optimizer {' or '.join(method.optimizers)}"
        raise InputError(f"{rule}, got {run.optimizer}: leave it at auto, its equations allow no other")
    if run.optimizer != "auto" and run.optimizer != own.optimizer:
        own = Solver(run.optimizer, RATES[run.optimizer], batch=own.batch)
    momentum = own.momentum if run.momentum == "auto" else float(run.momentum)
    if momentum and own.optimizer != "sgd":
        raise InputError(
            f"momentum is a part of sgd, got momentum {momentum:g} with {name}'s optimizer {own.optimizer}: "
            "set the optimizer to sgd, or leave momentum out"
        )
    third = max(1, int(statistics.median(sizes)) // 3)
    return own._replace(
        rate=own.rate if run.lr == "auto" else run.lr,
        momentum=momentum,
        decay=run.lr_decay,
        batch=min(own.batch, third) if run.batch == "auto" else run.batch,
    )


def _agreed(roster: Sequence[Member]) -> tuple[tuple[int, ...], int]:
    """The shape of examples, in which all must agree, and the classes: the union over silos."""
    first = roster[0]
    for other in roster:
        if other.shape != first.shape:
            raise InputError(
                f"silos need examples of one shape, {first.name!r} has {list(first.shape)}, "
                f"{other.name!r} {list(other.shape)}: bring them to one form"
            )
        if (other.classes == 0) != (first.classes == 0):
            raise InputError(f"silos need one kind of labels, {first.name!r} and {other.name!r} differ: look at both")
    return first.shape, max(member.classes for member in roster)


def _task(run: Run, shape: tuple[int, ...], classes: int, model: Builds | None, metric: Metric) -> tuple[str, Task]:
    """The model's name, and the task of learning it."""
    if run.class_weights != "none" and not classes:
        raise InputError("class_weights needs classes, the labels here are quantities: leave it at none")
    start: Mapping[str, Tensor] | None = None if run.init_from == "none" else _weights(run.init_from)
    make: Callable[[], nn.Module]
    if model is None:
        name = models.resolve(run.model, shape)
        make = models.make(name, shape, classes or 1)
    elif isinstance(model, nn.Module):
        name, make = type(model).__name__, functools.partial(copy.deepcopy, model)
        start = model.state_dict() if start is None else start
    elif callable(model):
        name, make = getattr(model, "__name__", type(model).__name__), model
    else:
        raise InputError(
            f"model needs a function that builds your nn.Module, or a module, got {model!r}: "
            "leave it out for one that Amity has, and name that in the run: Run(model='mlp')"
        )
    return name, Task(
        make,
        shape,
        classes,
        device=_device(run.device),
        start=start,
        train_loss=run.train_loss,
        metric=metric,
        class_weights=run.class_weights,
    )


def _check_batches(task: Task, roster: Sequence[Member], solver: Solver) -> None:
    """Refuse batches of one example for a model that normalises over the batch: it would learn nothing from them."""
    if not task.normalises_batches:
        return
    if solver.batch == 1:
        raise InputError("a model with BatchNorm needs a batch of at least 2, got 1: raise --batch")
    for member in roster:
        if member.size == 1:
            raise InputError(
                f"a model with BatchNorm needs 2 training examples per silo, {member.name!r} has 1: leave it out"
            )


def _pooled(run: Run, share: float, roster: Sequence[Member]) -> list[Member]:
    """The roster with all training data in one place, where no silo is left to be sampled or to drop out."""
    if share < 1 or run.drop:
        got = f"participation {share:g} and drop {run.drop:g}"
        raise InputError(f"pooled has all data in one place and needs it in every round, got {got}: leave both out")
    first, *others = roster
    whole = first._replace(size=sum(member.size for member in roster))
    return [whole, *(member._replace(size=0) for member in others)]


def _check_method(method: object) -> None:
    missing = [name for name in vars(Method) if not name.startswith("_") and not hasattr(method, name)]
    if isinstance(method, type) or missing or not is_dataclass(method):
        got = method.__name__ if isinstance(method, type) else repr(method)
        why = "the class itself" if isinstance(method, type) else "no dataclass"
        why = f"without {', '.join(missing)}" if missing else why
        raise InputError(
            f"method needs a dataclass's object with the members of amity.Method, got {got}, {why}: "
            "see examples/own_method.py; name a method that Amity has in the run: Run('fedamp')"
        )


def _weights(path: str) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"init_from needs a file of weights, {path} does not exist: give another path") from None
    except (OSError, SafetensorError) as error:
        raise InputError(f"init_from needs a safetensors file, {path} cannot be read: {error}") from None


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device must be one that torch can use here, got {name!r} ({reason}): try cpu") from None
    return device
