"""A simulation before its first round: data are read and made ready, the plan is resolved, mistakes are refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from amity.config.run import Run
from amity.contract import InputError, Method
from amity.data import Silos, deal, load
from amity.data.sets.fetch import Notify as Fetching
from amity.data.settings import registry as settings
from amity.engines.local import footprint
from amity.engines.local.matrices import check_folder
from amity.engines.ray.cluster import check as check_ray
from amity.federation.plan import Member, Plan, member_of
from amity.methods import METHODS, trainings_ahead
from amity.methods.pooled import Pooled
from amity.private_runs import private_notes
from amity.resolve import RATES, Builds, method_of, resolve, validation_of

HIGHEST = {"adam": 0.1, "sgd": 10.0}
"""Rates above which no model of ours has learnt anything: a step then leads anywhere."""


class Prepared(NamedTuple):
    """A run with every `auto` resolved and every part built; nothing was computed or written yet."""

    run: Run
    plan: Plan
    silos: Silos

    @property
    def names(self) -> list[str]:
        """What the silos are called."""
        return [silo.name for silo in self.silos.silos]

    @property
    def notes(self) -> list[str]:
        """What to know before it begins: departures from the setting's plan, and a rate that cannot be meant."""
        return [*self.silos.notes, *self.alarms]

    @property
    def alarms(self) -> list[str]:
        """What to know before hours are spent on it: a rate that cannot be meant."""
        solver, highest = self.plan.solver, HIGHEST[self.plan.solver.optimizer]
        if solver.rate <= highest:
            return []
        usual = f"{solver.optimizer} learns with {RATES[solver.optimizer]:g}, and nothing above {highest:g}"
        return [f"lr = {solver.rate:g} is more than training can use ({usual}): models may say nothing"]

    @property
    def facts(self) -> dict[str, Any]:
        """What the record says beside the configuration."""
        groups = self.plan.fed.groups
        return {
            "method": self.run.method,
            "data": self.run.data,
            "setting": self.run.setting,
            "model": self.run.model,
            "clients": self.run.clients,
            "seed": self.run.seed,
            "engine": self.run.engine if self.run.engine in ("ray", "memory") else "simulate",
            "version": version("amity"),
            "groups": None if groups is None else groups.tolist(),
            "notes": self.notes,
            "labels": list(self.silos.labels),
            "label": self.silos.label or None,
            "features": list(self.silos.features),
            "schema": None if self.silos.schema is None else self.silos.schema.json(),
            "columns": list(self.silos.account) or None,
            "score": self.plan.task.metric.key,
            "scales": None if self.silos.classes else {silo.name: silo.scale for silo in self.silos.silos},
            "sha256": self.silos.sha256,
            "test_sha256": _tests_hash(self.silos),
            "trainings_ahead": self._trainings_ahead,
        }

    @property
    def _trainings_ahead(self) -> float:
        """Local trainings of an evaluated model beyond one for every round; none are known of a method of one's own."""
        if self.run.method not in METHODS:
            return 0.0
        return trainings_ahead(self.run.method, self.run.settings, self.run.epochs)


def silos_of(run: Run, data_dir: str | Path | None = None, notify: Fetching | None = None) -> Silos:
    """The federation that a run asks for; `notify` hears of files that are fetched."""
    setting = settings.resolve(run.setting, run.data)  # a mistake in it is found before anything is read
    source = load(
        run.data,
        data_dir,
        seed=run.seed,
        test_fraction=run.test_fraction,
        labels=run.labels,
        label=None if run.label == "auto" else run.label,
        drop=run.dropped,
        schema=None if run.schema == "none" else run.schema,
        scale=run.scale,
        notify=notify,
    )
    return deal(source, setting, number(run.clients), run.seed)


def prepare(run: Run, silos: Silos, *, model: Builds | None = None, method: Method | None = None) -> Prepared:
    """Resolve and check everything that can be checked before round 1."""
    if not isinstance(run, Run):
        raise InputError(f"a run is described by amity.Run, got {run!r}: try amity.Run('fedavg', rounds=20)")
    if not isinstance(silos, Silos):
        got = type(silos).__name__
        raise InputError(f"a run needs the silos that amity.own_silos gives, got {got}: try own_silos({{name: data}})")
    label, built = method_of(run, method)
    if run.engine == "ray":
        check_ray(run.device)
    if run.engine == "stacked" and run.privacy is not None:
        raise InputError(
            "differential privacy has no stacked engine, every silo draws noise by itself: use auto or loop"
        )
    silos = ready(silos, run, label, built)
    asked = run
    if run.participation == "auto" and not isinstance(built, Pooled):  # which no setting can propose a sample of
        asked = replace(run, participation=silos.participation)
    resolved, plan = resolve(asked, roster_of(silos), model=model, method=method)
    resolved = replace(resolved, data=silos.data, setting=silos.setting)
    if isinstance(built, Pooled):
        silos = silos.pooled()
    if run.matrix_dir != "none":
        check_folder(Path(run.matrix_dir), plan.task.device)
    near = footprint.check(
        plan,
        silos.silos,
        name=label,
        engine=run.engine,
        workers=number(run.workers),
        in_files=run.matrix_dir != "none",
        distant=run.engine == "ray" and run.ray_address != "local",
    )
    unprotected = private_notes(
        plan,
        scaled=silos.schema is not None and run.schema == "none",
        standardised=not silos.classes,
    )
    said = [*near, *unprotected]
    silos = replace(silos, notes=(*silos.notes, *said)) if said else silos
    return Prepared(resolved, plan, silos)


def ready(silos: Silos, run: Run, name: str, method: Method) -> Silos:
    """The silos as they are learnt from: cut to the run's limit, validation data set aside, quantities standardised.

    Each silo does it by itself, with its own data only.
    """
    silos = silos.at_most(run.per_silo, run.seed)
    share = validation_of(run, name, method, roster_of(silos))
    return silos.with_validation(share, run.seed).standardised()


def roster_of(silos: Silos) -> list[Member]:
    """What the others know of each silo."""
    return [member_of(silo, silos.classes) for silo in silos.silos]


def number(value: int | str) -> int | None:
    """A number, or none where it is left open (auto)."""
    return value if isinstance(value, int) else None


def _tests_hash(silos: Silos) -> str:
    """A hash of what silos are tested on: runs may differ in training data and be compared.

    A quantity is not in it, for it is seen in a unit that follows the training data.
    """
    digest = hashlib.sha256()
    for silo in silos.silos:
        digest.update(f"/{silo.name}/{tuple(silo.test.x.shape)}/".encode())
        digest.update(silo.test.x.contiguous().numpy().data)
        if silos.classes:
            digest.update(silo.test.y.contiguous().numpy().data)
    return digest.hexdigest()
