"""From a Run to a result: the one place where methods, data, models, engines and the record meet."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from amity import methods, models, record
from amity.config import Run
from amity.contract import Federation, InputError, Method, Model, Particular, Progress, Scale, Solver, Validating
from amity.data import Silos, deal, load
from amity.data.fetch import Notify as Fetching
from amity.data.settings import resolve
from amity.engines import ray
from amity.engines.simulate import Notify, federation_of, personal_models, simulate
from amity.engines.stacked import Engine
from amity.matrices import check_folder
from amity.methods.pooled import Pooled
from amity.options import nearest
from amity.task import Task

RATES = {"adam": 1e-3, "sgd": 1e-2}
"""Rates of an optimiser that is not the method's own, where none is given."""


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of a run."""

    summary: dict[str, Any]
    lines: list[dict[str, Any]]  # one per round, as in rounds.jsonl
    weights: dict[int, npt.NDArray[np.float32]]  # round -> collaboration weights [m, m]
    path: Path | None
    _task: Task
    _models: dict[str, Model]
    _scales: dict[str, Scale]

    @property
    def bmta(self) -> float:
        """The best mean test accuracy over rounds, in percent."""
        if self.summary["score"] != "accuracy":
            raise InputError("quantities have no accuracy: see best and scores of this result")
        return _number(self.summary["bmta"])

    @property
    def best(self) -> float:
        """The best mean score over rounds, in percent: accuracy, or R2 where labels are quantities; or NaN."""
        return _number(self.summary["best"])

    @property
    def accuracy(self) -> dict[str, float]:
        """Each silo's test accuracy in the last round, in percent."""
        if self.summary["score"] != "accuracy":
            raise InputError("quantities have no accuracy: see best and scores of this result")
        return self.scores

    @property
    def scores(self) -> dict[str, float]:
        """Each silo's score in the last round, in percent: accuracy, or R2 where labels are quantities.

        NaN where it is undefined. A model that has failed has the accuracy 0, and no R2 (NaN).
        """
        return dict(zip(self._models, map(_number, self.lines[-1][self.summary["score"]]), strict=True))

    def model(self, silo: str) -> nn.Module:
        """A silo's personal model after the last round, ready to predict; of quantities, in the silo's own unit."""
        if silo not in self._models:
            raise InputError(f"no silo is called {silo!r}: {nearest(silo, self._models)}")
        module = self._task.module(self._models[silo])
        return module if self._task.classes else nn.Sequential(module, _Restored(self._scales[silo])).eval()


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


class _Restored(nn.Module):
    """Quantities as they were before they were standardised."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, value: Tensor) -> Tensor:
        return value * self.scale.unit + self.scale.zero


class Prepared(NamedTuple):
    """A run with every `auto` resolved and every part built; nothing was computed or written yet."""

    run: Run
    method: Method
    task: Task
    silos: Silos
    fed: Federation
    solver: Solver

    @property
    def names(self) -> list[str]:
        return [silo.name for silo in self.silos.silos]

    @property
    def facts(self) -> dict[str, Any]:
        """What the record says beside the configuration."""
        groups = self.fed.groups
        return {
            "method": self.run.method,
            "data": self.run.data,
            "setting": self.run.setting,
            "model": self.run.model,
            "clients": self.run.clients,
            "seed": self.run.seed,
            "engine": "ray" if self.run.engine == "ray" else "simulate",
            "version": version("amity"),
            "groups": None if groups is None else groups.tolist(),
            "notes": list(self.silos.notes),
            "labels": list(self.silos.labels),
            "score": "accuracy" if self.silos.classes else "r2",
            "scales": None if self.silos.classes else {silo.name: silo.scale for silo in self.silos.silos},
            "sha256": self.silos.sha256,
            "test_sha256": _tests_hash(self.silos),
        }


def _tests_hash(silos: Silos) -> str:
    """Of what silos are tested on: runs may differ in training data and be compared. A quantity is not in it, for it is
    seen in a unit that follows the training data."""
    digest = hashlib.sha256()
    for silo in silos.silos:
        digest.update(f"/{silo.name}/{tuple(silo.test.x.shape)}/".encode())
        digest.update(silo.test.x.contiguous().numpy().data)
        if silos.classes:
            digest.update(silo.test.y.contiguous().numpy().data)
    return digest.hexdigest()


def silos_of(run: Run, data_dir: str | Path | None = None, notify: Fetching | None = None) -> Silos:
    """The federation that a run asks for; `notify` hears of files that are fetched."""
    setting = resolve(run.setting, run.data)  # a mistake in it is found before anything is read
    source = load(run.data, data_dir, seed=run.seed, test_fraction=run.test_fraction, labels=run.labels, notify=notify)
    return deal(source, setting, _count(run.clients), run.seed)


def prepare(
    run: Run,
    silos: Silos,
    *,
    model: Callable[[], nn.Module] | nn.Module | None = None,
    method: Method | None = None,
) -> Prepared:
    """Resolve and check everything that can be checked before round 1."""
    _check_run(run)
    if not isinstance(silos, Silos):
        got = type(silos).__name__
        raise InputError(
            f"a run needs the silos that amity.federation gives, got {got}: try federation({{name: data}})"
        )
    if method is not None:
        _check_method(method)
    if method is not None and run.settings:
        raise InputError("settings go to a method named in the run, got a method of your own: set its fields instead")
    if run.engine == "ray":
        ray.check(run.device)
    label = run.method if method is None else type(method).__name__.lower()
    built = methods.build(run.method, run.settings) if method is None else method
    silos = silos.at_most(run.per_silo, run.seed)
    share = _validation(run, label, built, silos)
    silos = silos.with_validation(share, run.seed).standardised()
    sampled = silos.participation if run.participation == "auto" else run.participation
    name, task = _task(run, silos, model)
    solver = solver_of(run, label, built, silos.sizes)
    if isinstance(built, Particular):
        built.accept(solver)
    if isinstance(built, Pooled):  # after the batch size, which follows the silos' own sizes
        silos, sampled = _pooled(run, silos), 1.0
    _check_batches(task, silos, solver)
    if run.matrix_dir != "none":
        check_folder(Path(run.matrix_dir), task.device)
    fed = federation_of(silos.silos, run.rounds, run.seed)
    resolved = replace(
        run,
        method=label,
        data=silos.data,
        setting=silos.setting,
        clients=len(silos.silos),
        model=name,
        batch=solver.batch,
        lr=solver.rate,
        optimizer=solver.optimizer,
        val_fraction=share,
        participation=sampled,
        settings=methods.settings_of(built),
    )
    return Prepared(resolved, built, task, silos, fed, solver)


def _check_run(run: object) -> None:
    if not isinstance(run, Run):
        raise InputError(f"a run is described by amity.Run, got {run!r}: try amity.Run('fedavg', rounds=20)")


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


def execute(
    run: Run,
    silos: Silos | None = None,
    *,
    model: Callable[[], nn.Module] | nn.Module | None = None,
    method: Method | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    data_dir: str | Path | None = None,
    notify: Notify | None = None,
    on_round: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Run a method on a federation and give back every silo's personal model.

    `silos`: your own federation, else the one that `run.data` and `run.setting` name. `model`: a function that
    builds your nn.Module, or a module whose weights everybody starts from. `method`: your own. `out`: a run
    directory; without one nothing is kept on disk. `on_round` sees each line of the record as it is written.
    """
    _check_run(run)
    prepared = prepare(run, silos_of(run, data_dir) if silos is None else silos, model=model, method=method)
    return carry_out(prepared, out=out, resume=resume, force=force, notify=notify, on_round=on_round)


def workplace(run: Run) -> AbstractContextManager[None]:
    """What several runs may share: a Ray cluster, where they use one. Each would otherwise start its own."""
    if run.engine != "ray":
        return nullcontext()
    return ray.cluster(run.ray_address, _count(run.workers) or os.cpu_count() or 1)


def check_target(prepared: Prepared, path: str | Path, *, resume: bool = False, force: bool = False) -> None:
    """Refuse a run directory before anything is computed or written."""
    if resume and record.begun(Path(path)):
        record.check_resumable(Path(path), prepared.run.table(), prepared.names, prepared.facts)
    else:  # what a crash has left before there was anything to continue may be replaced
        record.check_free(Path(path), force=force or resume)


def carry_out(
    prepared: Prepared,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    notify: Notify | None = None,
    on_round: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Run what was prepared, recording every round."""
    run, method, task, silos, fed, solver = prepared
    with _directory(out) as path:
        check_target(prepared, path, resume=resume, force=force)
        with closing(_Log(prepared, path, keep=out is not None, resume=resume, force=force)) as log:
            if log.done:  # without a checkpoint, from which models could be made again
                named = {name: task.import_state(state) for name, state in record.read(path).models.items()}
            else:
                end = _rounds(prepared, log, notify=notify, on_round=on_round)
                here: Engine = "loop" if run.engine == "ray" else run.engine
                trained = personal_models(
                    method, task, silos.silos, fed, solver, run.who, end, workers=_count(run.workers), engine=here
                )
                named = dict(zip(prepared.names, trained, strict=True))
            states = ((name, task.export_state(model)) for name, model in named.items())
            summary = log.recorder.finish(states if log.keep else ())
        kept = record.read(path)
        scales = {silo.name: silo.scale for silo in silos.silos}
        return Result(summary, kept.lines, kept.weights, path if log.keep else None, task, named, scales)


class _Log:
    """The record of a run. Its directory is made when the first client begins to train: what is refused before
    leaves nothing behind."""

    def __init__(self, prepared: Prepared, path: Path, *, keep: bool, resume: bool, force: bool) -> None:
        self.keep = keep
        self.begun: Progress | None = None
        self._opened: record.Recorder | None = None
        self._create = functools.partial(
            record.Recorder.create,
            path,
            prepared.run.table(),
            prepared.names,
            prepared.facts,
            manifest=prepared.silos.manifest() if keep else None,
            force=force or resume,  # resumed: what is left of a run that never began
        )
        if resume and record.begun(path):
            self._opened, self.begun = record.Recorder.resume(path, prepared.run.table())
        self.saved = self.begun.round if self.begun else 0

    @property
    def recorder(self) -> record.Recorder:
        if self._opened is None:
            self._opened = self._create()
        return self._opened

    @property
    def done(self) -> bool:
        """Whether the run was finished before and has no state to go on from."""
        return self.begun is None and self._opened is not None and self._opened.finished

    def interrupted(self) -> None:
        if self._opened is not None:  # else nothing has begun, and what --force was to replace stays
            self._opened.interrupted()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def save(self, progress: Progress) -> None:
        if self.keep and self.saved < progress.round == len(self.recorder.lines):
            self.recorder.checkpoint(progress)
            self.saved = progress.round


def _rounds(
    prepared: Prepared,
    log: _Log,
    *,
    notify: Notify | None,
    on_round: Callable[[dict[str, Any]], None] | None,
) -> Progress:
    """Run and record the rounds that are left. An interrupted run stays readable and can be resumed."""
    run, method, task, silos, fed, solver = prepared
    progress = log.begun

    def watched(phase: str, done: int, total: int) -> None:
        if phase == "train":
            _ = log.recorder
        if notify is not None:
            notify(phase, done, total)

    begin = (
        functools.partial(ray.spread, address=run.ray_address)
        if run.engine == "ray"
        else functools.partial(simulate, engine=run.engine)
    )
    rounds = begin(
        method,
        task,
        silos.silos,
        fed,
        solver,
        run.who,
        workers=_count(run.workers),
        start=log.begun,
        notify=watched,
        evaluate_every=run.evaluate_every,
        matrix_dir=None if run.matrix_dir == "none" else Path(run.matrix_dir),
    )
    try:
        for report in rounds:
            line = log.recorder.add(report)
            progress = report.progress
            if log.recorder.checkpoint_due(progress, run.checkpoint_every):
                log.save(progress)
            if on_round is not None:
                on_round(line)
    except KeyboardInterrupt:
        if progress is not None:
            log.save(progress)
        log.interrupted()
        raise
    assert progress is not None  # a run has at least one round, done now or before
    return progress


def _count(number: int | str) -> int | None:
    """A number, or none where it is left open (auto)."""
    return number if isinstance(number, int) else None


@contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """The run directory, or a passing one where nothing is to be kept."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="amity-") as folder:
        yield Path(folder)


def _task(run: Run, silos: Silos, model: Callable[[], nn.Module] | nn.Module | None) -> tuple[str, Task]:
    """The model's name, and the task of learning it."""
    start: Mapping[str, Tensor] | None = None if run.init_from == "none" else _weights(run.init_from)
    if model is None:
        name = models.resolve(run.model, silos.shape)
        make = models.make(name, silos.shape, silos.classes or 1)
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
        make, silos.shape, silos.classes, device=_device(run.device), start=start, train_loss=run.train_loss
    )


def _check_batches(task: Task, silos: Silos, solver: Solver) -> None:
    """A model that normalises over the batch learns nothing from batches of one example: they are left out."""
    if not task.normalises_batches:
        return
    if solver.batch == 1:
        raise InputError("a model with BatchNorm needs a batch of at least 2, got 1: raise --batch")
    for silo in silos.silos:
        if len(silo.train.y) == 1:
            raise InputError(
                f"a model with BatchNorm needs 2 training examples per silo, {silo.name!r} has 1: leave it out"
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


def _validation(run: Run, name: str, method: Method, silos: Silos) -> float:
    """The share of training data to set aside in silos that brought no validation data of their own."""
    needs = method.validation if isinstance(method, Validating) else 0.0
    if run.val_fraction == "auto":
        return needs
    if needs and not run.val_fraction and any(silo.val is None for silo in silos.silos):
        raise InputError(f"{name} needs validation data, got val_fraction 0: leave it at auto ({needs:g})")
    return run.val_fraction


def _pooled(run: Run, silos: Silos) -> Silos:
    """All training data in one place, where no silo is left to be sampled or to drop out."""
    share = run.who.participation
    if share < 1 or run.drop:
        got = f"participation {share:g} and drop {run.drop:g}"
        raise InputError(f"pooled has all data in one place and needs it in every round, got {got}: leave both out")
    return silos.pooled()


def solver_of(run: Run, name: str, method: Method, sizes: Sequence[int]) -> Solver:
    """The method's own protocol, with what the run asks for in its place."""
    own = method.solver
    if run.optimizer not in ("auto", *method.optimizers):
        rule = f"{name} needs the optimizer {' or '.join(method.optimizers)}"
        raise InputError(f"{rule}, got {run.optimizer}: leave it at auto, its equations allow no other")
    if run.optimizer != "auto" and run.optimizer != own.optimizer:
        own = Solver(run.optimizer, RATES[run.optimizer], batch=own.batch)
    third = max(1, int(statistics.median(sizes)) // 3)
    return own._replace(
        rate=own.rate if run.lr == "auto" else run.lr,
        decay=run.lr_decay,
        batch=min(own.batch, third) if run.batch == "auto" else run.batch,
    )
