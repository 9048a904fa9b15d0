"""The laws that every method keeps. A new row of METHODS is tested by being there.

What differs from method to method is said in three tables: the settings worth a run of their own (VARIANTS), what
crosses the wire where that is not just a model (wire_of) and when a method with one client is local training (ALONE).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

import pytest
import safetensors.torch
import torch
from small import (
    Seen,
    batchnorm,
    copied,
    dropout,
    flat,
    fresh_task,
    mlp,
    near,
    relabelled,
    run,
    same,
    silo,
    silos,
    solver_of,
    task,
    turn_of,
)
from torch import Tensor

from amity.contract import Download, InputError, Method, Model, Progress, Round, Score, Split, State
from amity.engines.simulate import federation_of
from amity.methods import METHODS, build, options_of
from amity.streams import stream
from amity.task import Task


@dataclass(frozen=True)
class Case:
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @cached_property
    def method(self) -> Method:
        return build(self.name, self.settings)

    def with_settings(self, **more: Any) -> Method:
        return build(self.name, {**self.settings, **more})

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


VARIANTS = [
    Case("separate", {"init": "independent"}),
    Case("fedavg", {"weighting": "uniform"}),
    Case("fedavg-ft", {"ft_epochs": 1, "ft_lr": 0.01}),
    Case("fedprox", {"mu": 1.0}),
    Case("apfl", {"adaptive": True, "alpha": 0.5}),
    Case("ditto", {"eval_model": "global", "weighting": "samples"}),
    Case("ditto", {"personal_epochs": 1, "personal_lr": 0.1}),
    Case("perfedavg", {"variant": "HF"}),
    Case("fedamp", {"mode": "theory", "alpha": 1.0}),
    Case("fedamp", {"mode": "theory", "alpha": 1e4, "on_negative": "raw", "sigma": 1e5}),
    Case("fedamp", {"self_weight": 0.4, "start": "own", "alpha": 1.0}),
    Case("fedamp", {"self_weight": "group", "pool": "latest"}),
    Case("fedamp", {"init": "independent", "pool": "latest"}),
    Case("heurfedamp", {"similarity_on": "update", "sigma": 5.0}),
    Case("heurfedamp", {"self_weight": 0.3, "pool": "latest"}),
    Case("pfedatt", {"kernel": "euclidean", "k": 3, "sigma": 2.0}),
    Case("fedacs", {"p": "none", "pool": "latest"}),
    Case("fedacs", {"damping": 0.5, "local": "step"}),
    Case("apple", {"budget": 2, "core_init": "independent", "scheduler": "exp"}),
    Case("apple", {"budget": 1, "selection": "uniform", "lr_scale": "none", "eta2": 0.1}),
    Case("l2gd", {"attraction": 2.0, "p": 0.5, "init": "independent"}),
    Case("psgd-share", {"split": "body_local", "shared_lr_scale": "1/m", "weighting": "samples"}),
    Case("psgd-apfl", {"shared_weight": 0.25, "phi": 2.0}),
    Case("psgd-mtl", {"attraction": 0.5, "phi": 2.0}),
]
DEFAULTS = [Case(name) for name in METHODS]
CASES = [*DEFAULTS, *VARIANTS]
SOME = {"participation": 0.4, "drop": 0.5, "drop_phase": "after"}
UNEVEN = {"participation": 0.8, "drop": 0.3, "local_epochs_range": (1, 2)}
every = pytest.mark.parametrize("case", DEFAULTS, ids=str)
every_variant = pytest.mark.parametrize("case", CASES, ids=str)


@cache
def usual(case: Case) -> list[Seen]:
    """The run that several laws look at: a model with buffers and counters, not everybody in every round."""
    return run(case.method, on=task(batchnorm), epochs=1, participation=0.8)


def sharing(case: Case) -> Method:
    """The method where all clients begin with one model."""
    private = {key: "shared" for key in ("init", "core_init") if key in case.settings}
    return case.with_settings(**private)


def same_score(one: Score, other: Score) -> bool:
    numbers = [torch.tensor([score.loss, *score.metrics.values()], dtype=torch.float64) for score in (one, other)]
    return torch.equal(one.right, other.right) and one.val == other.val and same({"": numbers[0]}, {"": numbers[1]})


def equal_runs(one: list[Seen], other: list[Seen]) -> bool:
    """To the last bit: states, personal models, scores, bytes, weights, who took part."""
    return len(one) == len(other) and all(
        same(a.progress.server, b.progress.server)
        and all(same(x, y) for x, y in zip(a.progress.clients, b.progress.clients, strict=True))
        and all(same(x, y) for x, y in zip(a.models, b.models, strict=True))
        and all(same_score(x, y) for x, y in zip(a.scores, b.scores, strict=True))
        and (a.weights is None) == (b.weights is None)
        and (a.weights is None or same({"weights": a.weights}, {"weights": b.weights}))
        and (a.round, a.took_part, a.dropped, a.epochs) == (b.round, b.took_part, b.dropped, b.epochs)
        and (a.bytes_up, a.bytes_down, a.bytes_eval) == (b.bytes_up, b.bytes_down, b.bytes_eval)
        for a, b in zip(one, other, strict=True)
    )


# Pure functions of explicit state


class Watched:
    """A method under observation: every call is made twice, arguments and results are compared to the last bit."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.paired, self.evaluates = method.paired, method.evaluates
        self.solver, self.optimizers = method.solver, method.optimizers
        self.called: set[str] = set()

    def _twice(self, name: str, on: Task | None, *arguments: Any) -> Any:
        self.called.add(name)
        before = [frozen(argument) for argument in arguments]
        fixed = [] if on is None else [on]
        first = getattr(self.method, name)(*fixed, *arguments)
        kept = frozen(first)
        if on is not None:  # what was returned must not live in the workspace that others use
            zeros = {key: torch.zeros_like(value) for key, value in on.init(stream(0, "other")).items()}
            on.gradient(zeros, Split(torch.ones(3, 3, dtype=torch.float64), torch.tensor([0, 1, 2])), stream(0, "x"))
        second = getattr(self.method, name)(*fixed, *arguments)
        assert unchanged(kept, frozen(first)), f"{name}: its result changed after it was returned"
        assert unchanged(kept, frozen(second)), f"{name}: equal calls, different results"
        for position, (old, argument) in enumerate(zip(before, arguments, strict=True)):
            assert unchanged(old, frozen(argument)), f"{name}: argument {position} changed"
        return first

    def init_server(self, task: Task, fed: Any) -> State:
        return self._twice("init_server", task, fed)

    def init_client(self, task: Task, fed: Any, client: int) -> State:
        return self._twice("init_client", task, fed, client)

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        return self._twice("download", None, server, who, round, rng)

    def local(self, task: Task, client: State, down: State, turn: Any) -> tuple[State, State]:
        return self._twice("local", task, client, down, turn)

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        # As a plain dict: what an engine gives away may be used up, which is not this law's business.
        return self._twice("aggregate", None, server, who, dict(uploads), round)

    def personal(self, task: Task, client: State, down: State | None, turn: Any) -> Model:
        return self._twice("personal", task, client, down, turn)


def frozen(value: Any) -> Any:
    """A deep copy of tensors in dicts and tuples; anything else stands for itself."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: frozen(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [frozen(inner) for inner in value]
    return value


def unchanged(old: Any, new: Any) -> bool:
    if isinstance(old, Tensor):
        return isinstance(new, Tensor) and same({"": old}, {"": new})
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(unchanged(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return len(old) == len(new) and all(unchanged(a, b) for a, b in zip(old, new, strict=True))
    return bool(old == new)


@every_variant
def test_the_six_functions_are_pure(case: Case) -> None:
    watched = Watched(case.method)
    run(watched, on=task(batchnorm), epochs=1, participation=0.8, drop=0.3, drop_phase="after")
    assert watched.called == {"init_server", "init_client", "download", "local", "aggregate", "personal"}


@every_variant
def test_uploads_that_are_given_away_change_nothing(case: Case) -> None:
    """The watched method gets copies to keep, the other one may use up the engine's matrices."""
    lossy = {"on": task(batchnorm), "epochs": 1, "participation": 0.8, "drop": 0.3, "drop_phase": "after"}
    for one, other in zip(run(case.method, **lossy), run(Watched(case.method), **lossy), strict=True):
        assert same(one.progress.server, other.progress.server)
        assert all(map(same, one.progress.clients, other.progress.clients))


@every_variant
def test_state_keeps_keys_shapes_and_types(case: Case) -> None:
    on, at = task(batchnorm), silos()
    fed = federation_of(at, 3, 1)
    server = case.method.init_server(on, fed)
    clients = [case.method.init_client(on, fed, i) for i in range(len(at))]
    for report in usual(case):
        assert form(report.progress.server) == form(server)
        assert [form(client) for client in report.progress.clients] == [form(client) for client in clients]


def form(state: State) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {key: (value.shape, value.dtype) for key, value in state.items()}


@every_variant
def test_personal_models_fit_the_task(case: Case) -> None:
    for model in usual(case)[-1].models:
        assert form(model) == form(task(batchnorm).init(stream(0, "any")))


# COM-6: the same seed, the same bits


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that what depends on scheduling shows."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@every_variant
def test_com_6_rerun_is_bit_identical(case: Case) -> None:
    assert equal_runs(usual(case), run(case.method, on=fresh_task(batchnorm), epochs=1, participation=0.8))


@every
def test_com_6_rerun_is_bit_identical_with_dropout(case: Case) -> None:
    """The model's own draws come from keyed streams, not from the process-wide generator."""
    torch.manual_seed(1)
    one = run(case.method, on=task(dropout), rounds=2, epochs=1)
    torch.manual_seed(2)
    assert equal_runs(one, run(case.method, on=task(dropout), rounds=2, epochs=1))


@every
def test_com_6_another_seed_gives_other_models(case: Case) -> None:
    other = run(case.method, on=task(batchnorm), epochs=1, participation=0.8, seed=2, rounds=1)
    assert not near(flat(usual(case)[0]), flat(other[0]))


@every
@pytest.mark.parametrize("make", [dropout, batchnorm])
def test_results_do_not_depend_on_workers(case: Case, make: Callable[[], Any], busy_threads: None) -> None:
    one = run(case.method, on=task(make), rounds=2, epochs=1, workers=1)
    assert equal_runs(one, run(case.method, on=fresh_task(make), rounds=2, epochs=1, workers=2))


def through_disk(progress: Progress) -> Progress:
    """A checkpoint as its bytes."""

    def value(state: State) -> State:
        return safetensors.torch.load(safetensors.torch.save({k: v.clone().contiguous() for k, v in state.items()}))

    return Progress(progress.round, value(progress.server), [value(client) for client in progress.clients])


@pytest.mark.parametrize(("case", "lossy"), [*((c, {}) for c in DEFAULTS), *((c, SOME) for c in CASES)], ids=str)
def test_com_6_resume_equals_uninterrupted(case: Case, lossy: dict[str, Any]) -> None:
    whole = run(case.method, on=task(batchnorm), rounds=4, epochs=1, **lossy)
    saved = through_disk(whole[1].progress)
    resumed = run(case.method, on=fresh_task(batchnorm), rounds=4, epochs=1, start=saved, **lossy)
    assert [report.round for report in resumed] == [3, 4]
    assert equal_runs(whole[2:], resumed)


# COM-4: who does not take part keeps what it has


def expected_lot(report: Round, before: Progress, method: Method) -> None:
    """Check one round's bookkeeping and states against the rule for absent, lost and accepted clients."""
    server, everyone = before.server, range(len(before.clients))
    asked = set(report.epochs)
    for i in everyone:
        old, new = before.clients[i], report.progress.clients[i]
        if i not in asked:
            assert same(old, new), f"client {i} was absent, but its state changed"
        elif i not in report.took_part:
            assert report.dropped[i] == "upload lost after training"
            assert same({k: old[k] for k in method.paired}, {k: new[k] for k in method.paired})
    assert set(report.took_part) == asked - set(report.dropped)
    silent = [i for i in everyone if i not in report.took_part]
    for key, value in server.items():  # a server that keeps a row per client keeps the rows of the silent ones
        if value.dim() and len(value) == len(before.clients):
            kept, old = report.progress.server[key][silent], value[silent]
            if key == "pairs":  # a pair changes with either of its two
                kept, old = kept[:, silent], old[:, silent]
            assert torch.equal(kept, old)


@every_variant
@pytest.mark.parametrize("phase", ["before", "after"])
def test_com_4_absent_clients_are_unchanged(case: Case, phase: str) -> None:
    at, on, method = silos(), task(batchnorm), case.method
    fed = federation_of(at, 5, 1)
    before = Progress(0, method.init_server(on, fed), [method.init_client(on, fed, i) for i in range(len(at))])
    first = [copied(client) for client in before.clients]
    heard, trained = set(), set()
    for report in run(method, on=on, at=at, rounds=5, epochs=1, participation=0.6, drop=0.3, drop_phase=phase):
        assert len(report.epochs) == (2 if phase == "before" else 3) and len(report.took_part) == 2
        expected_lot(report, before, method)
        heard.update(report.took_part)
        trained.update(report.epochs)
        before = report.progress
    for i in set(range(len(at))) - trained:
        assert same(before.clients[i], first[i]), "a client that is never active keeps its initial state"
    for i in trained if first[0] else ():
        assert not same(before.clients[i], first[i])


@every
def test_com_4_never_active_client_keeps_its_initial_state(case: Case) -> None:
    """Participation 0.2 asks one client of five, and one round leaves four untouched."""
    (report,) = run(case.method, rounds=1, participation=0.2)
    fed = federation_of(silos(), 1, 1)
    absent = sorted(set(range(5)) - set(report.took_part))
    assert len(absent) == 4
    for i in absent:
        assert same(report.progress.clients[i], case.method.init_client(task(), fed, i))


@every
def test_lost_upload_keeps_the_trained_state_but_for_paired_keys(case: Case) -> None:
    method = case.method
    fed = federation_of(silos(), 1, 1)
    kept = run(method, rounds=1)[0]
    lossy = run(method, rounds=1, drop=0.4, drop_phase="after")[0]
    assert len(lossy.dropped) == 2
    for i in lossy.dropped:
        first, trained, after = (
            method.init_client(task(), fed, i),
            kept.progress.clients[i],
            lossy.progress.clients[i],
        )
        assert same(after, {**trained, **{key: first[key] for key in method.paired}})


def poisoned() -> list[list[Any]]:
    """The usual silos, but the second has an input that overflows."""
    at = silos()
    x = at[1].train.x.clone()
    x[3, 0] = torch.inf
    at[1] = at[1]._replace(train=Split(x, at[1].train.y))
    return at


@every_variant
def test_upload_that_is_not_finite_is_refused(case: Case) -> None:
    method, at, on = case.method, poisoned(), task()
    fed = federation_of(at, 2, 1)
    first = method.init_client(on, fed, 1)
    uploads_nothing = usual(case)[0].bytes_up == 0
    for report in run(method, at=at, on=on, rounds=2):
        if uploads_nothing:  # nobody else can be harmed by what is not sent
            assert report.dropped == {}
        else:
            assert report.took_part == [0, 2, 3, 4]
            assert report.dropped.keys() == {1} and "not finite" in report.dropped[1]
            assert same(report.progress.clients[1], first), "refused: all of the client's state is rolled back"
        states = [report.progress.server, *(report.progress.clients[i] for i in (0, 2, 3, 4))]
        assert all(torch.isfinite(value.double()).all() for state in states for value in state.values())
        assert all(torch.isfinite(report.personal(i)["params"]).all() for i in (0, 2, 3, 4))


# COM-1 and its relatives: clients are told apart by their data and keys, never by their place


@pytest.mark.parametrize(("case", "lossy"), [*((c, {}) for c in DEFAULTS), *((c, UNEVEN) for c in CASES)], ids=str)
def test_com_1_relabelling_permutes(case: Case, lossy: dict[str, Any]) -> None:
    order = [3, 0, 4, 1, 2]  # new place -> old place
    at = silos()
    before = run(case.method, at=at, on=task(mlp), epochs=1, **lossy)
    after = run(case.method, at=[at[i] for i in order], on=task(mlp), epochs=1, **lossy)
    for one, other in zip(before, after, strict=True):
        assert sorted(order[i] for i in other.took_part) == one.took_part
        assert {order[i]: why for i, why in other.dropped.items()} == one.dropped
        assert {order[i]: epochs for i, epochs in other.epochs.items()} == one.epochs
        assert near(flat(other), flat(one)[order])
        assert (other.bytes_up, other.bytes_down, other.bytes_eval) == (one.bytes_up, one.bytes_down, one.bytes_eval)
        assert (one.weights is None) == (other.weights is None)
        # Between the equal models of round 1, who of them is kept is a matter of rounding.
        if one.weights is not None and other.weights is not None and one.round > 1:
            assert near(other.weights.nan_to_num(nan=9), one.weights[order][:, order].nan_to_num(nan=9))


def twins() -> list[Any]:
    """Five silos of which three are one and the same, key and all."""
    return [silo("ash", 7), silo("birch", 15, 1), silo("ash", 7), silo("elm", 12, 1), silo("ash", 7)]


@pytest.mark.parametrize("case", [c for c in CASES if "budget" not in c.settings], ids=str)
def test_identical_clients_get_identical_models(case: Case) -> None:
    """But for a budget, which lets twins choose different cores."""
    for report in run(case.method, at=twins(), epochs=1):
        models = flat(report)
        assert near(models[2], models[0]) and near(models[4], models[0])
        if case.method.evaluates == "held":
            assert not near(models[1], models[0])


# Coupling: another silo's data change my model, and must not for `separate`


@every_variant
def test_coupling_other_silos_labels_change_my_model(case: Case) -> None:
    at = silos()
    others = [at[0], *(relabelled(one) for one in at[1:])]
    mine, changed = (flat(run(case.method, at=x)[-1])[0] for x in (at, others))
    if case.name == "separate":
        assert torch.equal(mine, changed)
    else:
        assert (mine - changed).abs().max() > 1e-6


@pytest.mark.parametrize("make", [mlp, batchnorm])
def test_sep_1_other_silos_do_not_matter(make: Callable[[], Any]) -> None:
    """Neither their labels, nor their inputs, nor their number."""
    at = silos()
    other = [at[0], *(silo(f"other {i}", 5 + i, seed=9) for i in range(2))]
    assert torch.equal(
        flat(run("separate", at=at, on=task(make))[-1])[0], flat(run("separate", at=other, on=task(make))[-1])[0]
    )
    assert torch.equal(
        flat(run("separate", at=at, on=task(make))[-1])[0], flat(run("separate", at=at[:1], on=task(make))[-1])[0]
    )


# COM-2: with one client every aggregation is the identity

ALONE: dict[str, Mapping[str, Any]] = {
    # With these settings, a method with one client is local training.
    "separate": {},
    "fedavg": {},
    "fedavg-local": {},
    "fedavg-ft": {"ft_epochs": 0},
    "fedprox": {"mu": 0.0},
    "fedprox-ft": {"mu": 0.0, "ft_epochs": 0},
    "scaffold": {},
    "vrlsgd": {},
    "apfl": {"alpha": 1.0, "adaptive": False},
    "ditto": {"attraction": 0.0, "personal_epochs": "same", "personal_lr": "same"},
    "pfedme": {"steps": 1, "inner_steps": 1, "attraction": 1.0, "eta": 1.0},  # w_i follows theta_i at once
    "perfedavg": {"adapt_lr": 0.0},
    "fedfomo": {},
    "twin": {"keep": "own"},
    "pooled": {},
    "fedamp": {"attraction": 0.0},
    "heurfedamp": {"attraction": 0.0},
    "pfedatt": {"attraction": 0.0},
    "fedacs": {},
    "apple": {"eta2": 0.0},  # p = (1) stays; otherwise p c is trained in both factors
    "l2gd": {"attraction": 0.0, "p": 0.0},
    "psgd-share": {},
    "psgd-residual": {"shared_lr_scale": 0.0},  # otherwise the sum is trained in both terms
    "psgd-mixture": {"attraction": 0.0},
    "psgd-moreau": {"attraction": 0.0, "inner_steps": 1},
    "psgd-apfl": {"shared_weight": 0.0},
    "psgd-mtl": {"attraction": 0.0},
}


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ALONE and c.settings.get("local") != "step"], ids=str)
def test_com_2_one_client_trains_alone(case: Case) -> None:
    """But for `local = step`, which is other local work than epochs."""
    at, on = silos(1), task(batchnorm)
    method = case.with_settings(**ALONE[case.name])
    solver = solver_of(method)
    first = case.settings.get("init", case.settings.get("core_init", "shared"))
    alone = run("separate", settings={"init": first}, at=at, on=on, solver=solver)
    for one, other in zip(alone, run(method, at=at, on=on, solver=solver), strict=True):
        assert near(flat(other), flat(one), 1e-12)


@every_variant
def test_com_2_one_client_is_the_only_one_in_its_weights(case: Case) -> None:
    for report in run(case.method, at=silos(1)):
        assert torch.isfinite(flat(report)).all()
        if report.weights is not None and case.name != "apple":  # apple's weight is learnt, not normalised
            assert torch.equal(report.weights, torch.ones(1, 1, dtype=torch.float64))


def test_com_2_apple_alone_stores_what_it_uploads() -> None:
    (first, second) = run("apple", at=silos(1), rounds=2)
    for report in (first, second):
        mine = report.progress.clients[0]
        assert torch.equal(report.progress.server["cores"], mine["cores"])
        assert near(report.personal(0)["params"], mine["relations"][0] * mine["cores"][0])
        assert report.bytes_down == 0


# COM-3: equal models, equal mixture


@every_variant
def test_com_3_mixture_of_equal_models_is_that_model(case: Case) -> None:
    """Clones train to equal uploads; what the server then sends is the upload."""
    on, method = task(batchnorm), sharing(case)
    at = [silo("ash", 7)] * 4
    fed = federation_of(at, 3, 1)
    server = method.init_server(on, fed)
    who = torch.arange(4)

    def rng(round: int) -> Callable[[str, int], torch.Generator]:
        return lambda role, key: stream(fed.seed, role, key, round)

    down = method.download(server, who, 1, rng(1))
    sent = [
        method.local(on, method.init_client(on, fed, i), down.to(i), turn_of(fed, at, i, solver_of(method)))[1]
        for i in range(4)
    ]
    uploads = {key: torch.stack([upload[key] for upload in sent]) for key in sent[0]}
    server = method.aggregate(server, who, uploads, 1)
    second = method.download(server, who, 2, rng(2))
    for receiver in range(4):
        for key, got in second.to(receiver).items():
            if key == "coins":  # l2gd's are drawn by the server
                continue
            want = uploads[key][receiver] if got.dim() == 1 else uploads[key][receiver].expand_as(got)
            assert near(got, want, 1e-12), key


@every_variant
def test_com_3_nothing_moves_at_rate_zero(case: Case) -> None:
    """Every model is the given start, so every mixture of them is, in every round."""
    start = {"weight": torch.linspace(-2, 3, 9).view(3, 3), "bias": torch.tensor([0.5, -1.0, 2.0])}
    on = task(start=start)
    known = {option["name"] for option in options_of(case.name)}
    rates = {"eta2": 0.0, "ft_lr": 1e-300, "adapt_lr": 0.0, "personal_lr": "same"}
    still = {**rates, "init": "shared", "core_init": "shared"}
    method = case.with_settings(**{key: value for key, value in still.items() if key in known})
    given = torch.cat([start["weight"].flatten(), start["bias"]]).double()
    for report in run(
        method, on=on, solver=solver_of(method, rate=0.0), epochs=1, participation=0.8, drop=0.3, drop_phase="after"
    ):
        assert near(flat(report), given.expand(5, -1), 1e-12)


@every
def test_given_start_weights_begin_every_run(case: Case) -> None:
    """The first round from given weights is not the first round from drawn ones, and depends on them alone."""
    on = task(mlp)
    weights = on.export_state(on.init(stream(77, "given")))
    begun = run(case.method, on=task(mlp, start=weights), rounds=1)[0]
    other = run(case.method, on=task(mlp), rounds=1)[0]
    assert not near(flat(begun), flat(other))
    fed = federation_of(silos(), 1, 1)
    drawn = fresh_task(mlp)
    drawn.initial = lambda fed, client=None: drawn.init(stream(77, "given"))  # type: ignore[method-assign]
    assert equal_runs([begun], run(case.method, on=drawn, rounds=1))
    assert torch.equal(task(mlp, start=weights).initial(fed)["params"], on.init(stream(77, "given"))["params"])


@pytest.mark.parametrize("case", [c for c in VARIANTS if "independent" in c.settings.values()], ids=str)
def test_independent_models_refuse_given_weights(case: Case) -> None:
    on = task()
    with pytest.raises(InputError, match="independent first models need random weights"):
        run(case.method, on=task(start=on.export_state(on.init(stream(0, "given")))))


# COM-5: bytes on the wire, by the table of methods.md section 11


class Wire(NamedTuple):
    """Bytes of one client's messages."""

    down: int
    up: int
    evaluation: int = 0
    first_down: int | None = None  # in round 1, where it differs
    later_down: int | None = None  # from round 3 on, when silos are back that missed a round


def model_bytes(on: Task, itemsize: int) -> int:
    """d parameters and b buffers of the model's type, counters of 8 bytes: counted on an ordinary module."""
    module = on.make()
    numbers = sum(p.numel() for p in module.parameters())
    numbers += sum(b.numel() for b in module.buffers() if b.is_floating_point())
    return itemsize * numbers + 8 * sum(b.numel() for b in module.buffers() if not b.is_floating_point())


def wire_of(case: Case, on: Task, clients: int, itemsize: int = 8, asked: int | None = None) -> Wire:
    model = model_bytes(on, itemsize)
    core = itemsize * sum(p.numel() for p in on.make().parameters())  # apple's buffers stay at the silo
    wanted = min(clients - 1, case.settings.get("budget", clients))
    sent = min((asked or clients) - 1, case.settings.get("budget", 4))  # fedfomo, of those asked
    layers = [[*layer.parameters(recurse=False)] for layer in on.make().modules()]
    layers = [layer for layer in layers if layer] if len(layers) > 1 else [[p] for p in layers[0]]
    head = itemsize * sum(p.numel() for p in layers[-1])  # the last layer, or the bias of a single one
    layers_sent = head if case.settings.get("split") == "body_local" else model - head
    special = {
        "scaffold": Wire(model + core, model + core),
        # the number of steps goes up; silos that missed round 2 get the mean of round 1 in round 3
        "vrlsgd": Wire(model, model + 8, later_down=model + core),
        "ditto": Wire(model, model, model if case.settings.get("eval_model") == "global" else 0),
        "fedfomo": Wire(sent * (model + 8), model + 8 * sent + 8 * (sent + 1)),  # models, indices; indices, scores
        "pooled": Wire(model, model, model),
        "apple": Wire(wanted * core, core + 8 * wanted, first_down=0),  # first cores come from seeds
        "l2gd": Wire(core + 16, core, first_down=16),  # two numbers of coins; the first model comes from the seed
        "psgd-share": Wire(layers_sent, layers_sent),
        "psgd-residual": Wire(core, core),
        "psgd-mixture": Wire(core, core),
        "psgd-moreau": Wire(core, core),
    }
    if case.name in special:
        return special[case.name]
    # What the row of the table says: nothing, or a model, and one more to be evaluated where that is the server's.
    entry, whole = METHODS[case.name], {"0": 0, "d": model}
    return Wire(whole[entry.down], whole[entry.up], model if case.method.evaluates == "server" else 0)


def bytes_of(report: Round, wire: Wire, active: int) -> bool:
    down = wire.first_down if report.round == 1 and wire.first_down is not None else wire.down
    if report.round > 2 and wire.later_down is not None:
        down = wire.later_down
    sent = (report.bytes_down, report.bytes_up, report.bytes_eval)
    return sent == (active * down, active * wire.up, 5 * wire.evaluation)


@every_variant
def test_com_5_bytes_equal_the_formula(case: Case) -> None:
    """Four of five clients take part; buffers and counters travel with the parameters."""
    wire = wire_of(case, task(batchnorm), 5, asked=4)
    assert all(bytes_of(report, wire, 4) for report in usual(case))


@every
@pytest.mark.parametrize(("share", "active"), [(1.0, 5), (0.5, 3)])
def test_com_5_bytes_without_buffers(case: Case, share: float, active: int) -> None:
    wire = wire_of(case, task(), 5, asked=active)
    rounds = run(case.method, rounds=2, epochs=1, participation=share)
    assert all(bytes_of(report, wire, active) for report in rounds)


@every
def test_com_5_float32_models_take_four_bytes(case: Case) -> None:
    on = Task(batchnorm, (3,), 3)
    wire = wire_of(case, on, 5, itemsize=4)
    assert all(bytes_of(report, wire, 5) for report in run(case.method, on=on, rounds=2, epochs=1))


@every
@pytest.mark.parametrize("phase", ["before", "after"])
def test_com_5_bytes_of_dropped_silos(case: Case, phase: str) -> None:
    """Who drops before training downloads nothing; what is lost after training was downloaded for, not received."""
    wire = wire_of(case, task(), 5, asked=3 if phase == "before" else 5)
    report = run(case.method, rounds=2, epochs=1, drop=0.4, drop_phase=phase)[1]
    assert report.bytes_down == (3 if phase == "before" else 5) * wire.down
    assert report.bytes_up == 3 * wire.up


# Edge cases


def finite(rounds: list[Seen]) -> bool:
    states = [state for report in rounds for state in (report.progress.server, *report.progress.clients)]
    return all(
        torch.isfinite(value.double()).all() for state in [*states, *rounds[-1].models] for value in state.values()
    )


@every_variant
def test_edge_one_active_client(case: Case) -> None:
    rounds = run(case.method, participation=0.2, rounds=4, epochs=1)
    assert all(len(report.took_part) == 1 for report in rounds) and finite(rounds)
    if case.settings.get("pool") == "latest":
        return
    for report in rounds:  # alone in its pool: its cloud model is its own
        if report.weights is not None and case.name != "apple":
            (me,) = report.took_part
            assert report.weights[me].tolist() == [float(i == me) for i in range(5)]


@every_variant
def test_edge_zero_vector_models(case: Case) -> None:
    start = {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}
    method = sharing(case)
    rounds = run(method, on=task(start=start), participation=0.6, epochs=1)
    assert finite(rounds) and flat(rounds[-1]).abs().max() > 0


@every_variant
def test_edge_all_models_equal(case: Case) -> None:
    assert finite(run(case.method, at=[silo("ash", 7)] * 3, epochs=1))


@pytest.mark.parametrize("k", [1, 4, 5, 50])
def test_edge_k_beyond_the_pool(k: int) -> None:
    rounds = run("pfedatt", settings={"k": k}, participation=0.6)
    for report in rounds:
        weights = report.weights
        assert weights is not None
        kept = weights[report.took_part]
        assert ((kept > 0).sum(1) <= min(k, 3)).all() and near(kept.sum(1), torch.ones(3, dtype=torch.float64))
        assert bool(report.warnings) == (k > 5)
    assert finite(rounds)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_edge_quantiles_at_the_ends(p: float) -> None:
    rounds = run("fedacs", settings={"p": p})
    assert finite(rounds)
    weights = rounds[-1].weights
    assert weights is not None
    assert near(weights.sum(1), torch.ones(5, dtype=torch.float64))
    if p == 1:  # nothing is above the largest similarity: everybody keeps itself alone
        assert torch.equal(weights, torch.eye(5, dtype=torch.float64))


@every
def test_edge_heterogeneous_epochs(case: Case) -> None:
    rounds = run(case.method, local_epochs_range=(1, 9))
    drawn = [epochs for report in rounds for epochs in report.epochs.values()]
    assert len(drawn) == 15 and set(drawn) <= set(range(1, 10)) and len(set(drawn)) > 2
    assert finite(rounds)


@every
@pytest.mark.parametrize("phase", ["before", "after"])
def test_edge_few_clients_and_drops(case: Case, phase: str) -> None:
    at = silos(9)
    rounds = run(case.method, at=at, participation=0.3, drop=0.3, drop_phase=phase, rounds=4)
    for report in rounds:  # 3 of 9 are sampled, 1 of 3 drops
        assert len(report.took_part) == 2 and len(report.dropped) == 1
        assert len(report.scores) == 9
    assert finite(rounds)


@every
def test_a_range_of_one_value_is_that_number_of_epochs(case: Case) -> None:
    assert equal_runs(run(case.method, epochs=3, rounds=1), run(case.method, local_epochs_range=(3, 3), rounds=1))


def test_every_row_has_its_formulas() -> None:
    """The tables above say something about every method."""
    assert ALONE.keys() == METHODS.keys()
    for name in METHODS:
        wire_of(Case(name), task(), 5)
