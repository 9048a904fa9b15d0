"""Stacked execution: what the loop gives, up to rounding, for every method that can be stacked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.cases import VARIANTS
from small import (
    CLASSES,
    FEATURES,
    Hostile,
    Seen,
    batchnorm,
    dropout,
    half_square,
    linear,
    mlp,
    quickly,
    run,
    same,
    scores_of,
    silo,
    silos,
    solver_of,
)
from torch import Tensor, nn

import amity
from amity.contract import Download, Federation, InputError, Model, Silo, Solver, State, Turn, model_of
from amity.engines.local import lift, stacked
from amity.engines.local.dense import Dense, dense_of
from amity.federation.plan import federation_of
from amity.learn.task import Task
from amity.learn.train import batches, gradient_at, train
from amity.methods import METHODS, build
from amity.testing.cases import Case

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}

# They write into a row of their own, mix at the client, and stop when losses rest.
ONE_BY_ONE = {"apple", "fedfomo", "fedala"}
BY_SIZES = {"twin"}  # leaves examples out of its turns: together only where silos have equally many

EQUAL = [silo(f"silo-{i}", 12, i % 2) for i in range(5)]

SILOS: dict[str, tuple[Sequence[Silo], dict[str, Any]]] = {
    "equal": (EQUAL, {}),
    "unequal": (silos(), {}),
    "epochs": (silos(7), {"local_epochs_range": (1, 3)}),
}


def task_of(make: Callable[[], nn.Module] = mlp, dtype: torch.dtype = torch.float64) -> Task:
    return Task(make, (FEATURES,), CLASSES, dtype=dtype)


def validated(at: Sequence[Silo]) -> list[Silo]:
    """The same silos, each with some of its test data for validation."""
    return [s._replace(val=type(s.test)(s.test.x[: 2 + i % 3], s.test.y[: 2 + i % 3])) for i, s in enumerate(at)]


def difference(one: State, other: State) -> float:
    """The largest distance of two tensors of the same name, relative to their length."""
    assert one.keys() == other.keys()
    out = 0.0
    for key, value in one.items():
        assert value.dtype == other[key].dtype and value.shape == other[key].shape, key
        if value.is_floating_point() and value.numel():
            out = max(out, float((value - other[key]).norm() / other[key].norm().clamp(min=1e-3)))
        else:
            assert torch.equal(value, other[key]), key
    return out


def agree(loop: Sequence[Seen], stack: Sequence[Seen], tolerance: float) -> None:
    for mine, theirs in zip(loop[-1].models, stack[-1].models, strict=True):
        assert difference(mine, theirs) <= tolerance
    for one, other in zip(loop, stack, strict=True):
        before, after = ([report.progress.server, *report.clients] for report in (one, other))
        assert max(difference(a, b) for a, b in zip(before, after, strict=True)) <= tolerance
        for score, same_score in zip(scores_of(one), scores_of(other), strict=True):
            assert score.loss == pytest.approx(same_score.loss, rel=tolerance, abs=tolerance)
            assert score.metrics == pytest.approx(same_score.metrics, nan_ok=True) and score.val == same_score.val
        assert all(map(torch.equal, one.each, other.each))
        facts = ("took_part", "dropped", "epochs", "bytes_up", "bytes_down", "bytes_eval", "holds")
        assert all(getattr(one, fact) == getattr(other, fact) for fact in facts)


def both(method: Any, **options: Any) -> tuple[list[Seen], list[Seen]]:
    return run(method, engine="loop", **options), run(method, engine="stacked", **options)


# Equal to the loop


def in_turn() -> Iterator[Any]:
    """Every method with every kind of silos and both types, two of the six at a time: the others are for slow tests."""
    for place, name in enumerate(METHODS):
        for number, sizes in enumerate(("equal", "unequal", "epochs")):
            for dtype in (torch.float64, torch.float32):
                quick = number == (place + (dtype == torch.float32)) % 3
                yield pytest.param(name, sizes, dtype, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "sizes", "dtype"), list(in_turn()), ids=str)
def test_stacked_equals_loop(name: str, sizes: str, dtype: torch.dtype) -> None:
    at, rule = SILOS[sizes]
    method = build(name)
    loop, stack = both(method, on=task_of(dtype=dtype), at=validated(at), solver=solver_of(method, batch=4), **rule)
    assert {report.executed for report in loop} == {"loop"}
    alone = name in ONE_BY_ONE or (name in BY_SIZES and sizes != "equal")
    assert {report.executed for report in stack} == {"loop" if alone else "stacked"}
    agree(loop, stack, TOLERANCE[dtype])


def test_what_a_silo_is_asked_for_may_be_lost_or_never_asked() -> None:
    rule = {"participation": 0.7, "drop": 0.4, "drop_phase": "after"}
    for name in ("scaffold", "fedavg-local", "heurfedamp"):
        agree(*both(name, on=task_of(), at=silos(10), **rule), TOLERANCE[torch.float64])


@pytest.mark.parametrize("case", VARIANTS, ids=str)
def test_variants_equal_the_loop(case: Case) -> None:
    method = case.method
    at = validated(silos())
    loop, stack = both(method, on=task_of(), at=at, solver=solver_of(method, batch=4), rounds=2)
    single_numbers = case.name in ONE_BY_ONE or getattr(method, "adaptive", False)
    assert stack[-1].executed == ("loop" if single_numbers else "stacked")
    agree(loop, stack, TOLERANCE[torch.float64])


SOLVERS = [Solver("adam", 0.01), Solver("sgd", 0.1, decay=0.5), Solver("sgd", 0.05, momentum=0.9)]


@given(
    sizes=st.lists(st.integers(1, 13), min_size=2, max_size=7),
    batch=st.integers(1, 14),
    epochs=st.integers(1, 4),
    solver=st.sampled_from(SOLVERS),
    rows=st.integers(1, 4),
    drawn=st.integers(1, 200),
)
def test_any_sizes_and_batches(
    sizes: list[int], batch: int, epochs: int, solver: Solver, rows: int, drawn: int
) -> None:
    at = [silo(f"silo-{i}", size, tests=1 + i) for i, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "ROWS", rows)
        patch.setattr(lift, "_DRAWN_NUMBERS", drawn)  # from one epoch at a time to all at once
        options: Any = {"on": TASK, "at": at, "solver": solver._replace(batch=batch), "epochs": epochs, "rounds": 2}
        loop, stack = both("fedprox", settings={"mu": 0.5}, **options)
    assert stack[-1].executed == "stacked"
    agree(loop, stack, TOLERANCE[torch.float64])


TASK = task_of()


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 8))
def test_clients_are_cut_into_the_fewest_stacks(sizes: list[int], most: int) -> None:
    clients = list(range(len(sizes)))
    stacks = stacked._cut(clients, sizes, most)
    assert sum(map(list, stacks), []) == clients
    assert len(stacks) == -(-len(sizes) // most) and all(1 <= len(stack) <= most for stack in stacks)


def test_stacks_have_about_as_many_examples() -> None:
    sizes = [9, 9, 9, 3, 3, 3, 3, 3, 3, 3, 3, 3]  # 27 and 27
    assert stacked._cut(range(12), sizes, 11) == [range(3), range(3, 12)]
    assert stacked._cut(range(12), sizes, 7) == [range(5), range(5, 12)]  # no more than 7
    assert [len(stack) for stack in stacked._cut(range(100), [8] * 100, 64)] == [50, 50]


def test_silos_with_one_example_and_with_none() -> None:
    at = [silo("ash", 1), silo("birch", 9), silo("cedar", 0), silo("elm", 2), silo("fir", 0)]
    agree(*both("fedavg-local", on=TASK, at=at), TOLERANCE[torch.float64])


def test_the_order_of_silos_does_not_matter() -> None:
    at = silos()
    one = run("heurfedamp", on=TASK, at=at, engine="stacked")[-1]
    other = run("heurfedamp", on=TASK, at=at[::-1], engine="stacked")[-1]
    assert max(difference(a, b) for a, b in zip(one.models, other.models[::-1], strict=True)) <= 1e-10


@pytest.mark.parametrize("name", quickly(METHODS))
def test_the_number_of_workers_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "ROWS", 2)
    task = task_of(dtype=torch.float32)
    options: Any = {"on": task, "at": validated(silos()), "rounds": 2, "engine": "stacked"}
    one, two = (run(name, workers=workers, **options)[-1] for workers in (1, 2))
    for mine, theirs in zip(one.clients, two.clients, strict=True):
        assert same(mine, theirs)
    assert same(one.progress.server, two.progress.server)
    assert [score.loss for score in scores_of(one)] == [score.loss for score in scores_of(two)]


# What goes wrong


def test_an_upload_that_is_not_finite_is_refused_alone() -> None:
    at = silos()
    broken = at[1]._replace(train=at[1].train._replace(x=at[1].train.x * torch.inf))
    loop, stack = both("fedavg", on=TASK, at=[at[0], broken, *at[2:]], rounds=2)
    assert stack[-1].executed == "stacked"
    assert stack[-1].dropped == {1: "upload refused: params not finite"}
    agree(loop, stack, TOLERANCE[torch.float64])


def bad_numbers(upload: State, is_it: Tensor, round: int) -> State:
    """A NaN in round 1, a negative number of steps in round 2; without a branch, so that it can be lifted."""
    if round == 1:
        return {**upload, "params": torch.where(is_it, torch.nan, upload["params"])}
    return {**upload, "steps": torch.where(is_it, -1, upload["steps"])} if round == 2 else upload


def test_uploads_with_bad_numbers_are_refused_alone() -> None:
    loop, stack = both(Hostile(build("vrlsgd"), bad_numbers), on=TASK, at=EQUAL, epochs=1)
    assert [report.executed for report in stack] == ["stacked"] * 3
    assert [report.dropped for report in stack] == [
        {1: "upload refused: params not finite"},
        {1: "upload refused: steps is not between 0 and any"},
        {},
    ]
    agree(loop, stack, TOLERANCE[torch.float64])


def test_uploads_of_another_form_are_refused_with_their_stack() -> None:
    def longer(upload: State, is_it: Tensor, round: int) -> State:
        return {**upload, "params": torch.cat([upload["params"], upload["params"][:1]])}

    (report,) = run(Hostile(build("fedavg"), longer), on=TASK, rounds=1, engine="stacked")
    assert report.executed == "stacked" and report.took_part == []
    assert len(set(report.dropped.values())) == 1 and "params has the shape" in report.dropped[0]
    fed = federation_of(silos(), 1, 1)
    assert same(report.progress.server, build("fedavg").init_server(TASK, fed))


@dataclass(frozen=True)
class Own:
    """A method of somebody's own."""

    work: Callable[[Task, State, State, Turn], Model]

    paired: ClassVar[tuple[str, ...]] = ()
    evaluates: ClassVar[Literal["held", "server"]] = "held"
    solver: ClassVar[Solver] = Solver("sgd", 0.1, batch=4)
    optimizers: ClassVar[tuple[str, ...]] = ("sgd",)

    def init_server(self, task: Task, fed: Federation) -> State:
        return task.initial(fed)

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**task.initial(fed), "place": torch.tensor(client)}

    def download(self, server: State, who: Tensor, round: int, rng: Any) -> Download:
        return Download(model_of(server), {})

    def local(self, task: Task, client: State, down: State, turn: Turn) -> tuple[State, State]:
        model = self.work(task, client, down, turn)
        return {**client, **model}, model

    def aggregate(self, server: State, who: Tensor, uploads: State, round: int) -> State:
        return {key: value.double().mean(0).to(value.dtype) for key, value in uploads.items()}

    def personal(self, task: Task, client: State, down: State | None, turn: Turn) -> Model:
        return model_of(client)


def test_errors_say_where() -> None:
    def work(task: Task, client: State, down: State, turn: Turn) -> Model:
        if int(client["place"]) == 2:
            raise InputError("own needs luck")
        return model_of(down)

    with pytest.raises(InputError, match="silo cedar, round 1, Own: own needs luck"):
        run(Own(work), on=TASK, engine="stacked")


# Methods of somebody's own see what a single client would show them


def with_size(task: Task, client: State, down: State, turn: Turn) -> Model:
    """As many gradient steps as there are examples, whose mean is added."""
    model = train(task, down, turn._replace(epochs=len(turn.data.train.y)))
    return {**model, "params": model["params"] + turn.data.train.x.mean()}


def with_labels(task: Task, client: State, down: State, turn: Turn) -> Model:
    """Batches weighed by their labels and losses."""
    model, total = model_of(down), torch.zeros_like(down["params"])
    for batch, rng in batches(task, turn):
        gradient, model = gradient_at(task, model, batch, rng)
        loss, _ = task.gradient(model, batch, rng)
        total = total + gradient * batch.y.double().mean() * batch.x.abs().max() * loss
    return {**model, "params": down["params"] - 0.01 * total}


def with_losses(task: Task, client: State, down: State, turn: Turn) -> Model:
    """Losses that are kept while others are computed."""
    losses = []
    for batch, rng in batches(task, turn):
        loss, gradient = task.gradient(down, batch, rng)
        losses.append(loss)
    return {**model_of(down), "params": down["params"] + gradient * losses[0] - losses[-1]}


def with_accuracy(task: Task, client: State, down: State, turn: Turn) -> Model:
    """Its own model if that is the more accurate one."""
    mine, theirs = task.evaluate(client, turn.data.train), task.evaluate(down, turn.data.train)
    better = mine.right.double().mean() >= theirs.right.double().mean()
    return {key: torch.where(better, client[key], down[key]) for key in ("params", "buffers", "counts")}


def with_more(task: Task, client: State, down: State, turn: Turn) -> Model:
    """Training from a state that is more than a model gives a model."""
    return train(task, {**down, "more": down["params"]}, turn)


def with_all(task: Task, client: State, down: State, turn: Turn) -> Model:
    """One step on all examples at once, beside the usual batches."""
    x, y = turn.data.train
    model = train(task, down, turn._replace(solver=turn.solver._replace(batch=len(y))))
    return {**model, "params": model["params"] * (1 + 0.01 * x.flatten()[0])}


@pytest.mark.parametrize("work", [with_size, with_labels, with_losses, with_accuracy, with_more, with_all])
@pytest.mark.parametrize("sizes", SILOS)
def test_own_code(work: Callable[[Task, State, State, Turn], Model], sizes: str) -> None:
    at, rule = SILOS[sizes]
    loop, stack = both(Own(work), on=TASK, at=at, solver=Own.solver, rounds=2, **rule)
    assert stack[-1].executed == "stacked"
    agree(loop, stack, TOLERANCE[torch.float64])


def with_luck(task: Task, client: State, down: State, turn: Turn) -> Model:
    noise = torch.randn(task.size, generator=turn.rng("luck", 1), dtype=task.dtype)
    return {**model_of(down), "params": down["params"] + noise}


def with_a_branch(task: Task, client: State, down: State, turn: Turn) -> Model:
    model = train(task, down, turn)
    return model if model["params"][0] > 0.1 else model_of(down)


@pytest.mark.parametrize(
    ("work", "reason"), [(with_luck, "random numbers of its own"), (with_a_branch, "single numbers")]
)
def test_code_that_cannot_be_lifted_is_run_one_by_one(work: Any, reason: str) -> None:
    loop, stack = both(Own(work), on=TASK, rounds=3)
    agree(loop, stack, 0.0)
    assert [len(report.warnings) for report in stack] == [1, 0, 0]
    assert "Own cannot" in stack[0].warnings[0] and reason in stack[0].warnings[0]
    silent = run(Own(work), on=TASK, engine="auto")
    assert [report.executed for report in silent] == ["loop"] * 3
    assert not any(report.warnings for report in silent)


@dataclass(frozen=True)
class Odd(Own):
    """One client keeps more than the others."""

    def init_client(self, task: Task, fed: Federation, client: int) -> State:
        return {**task.initial(fed), **({"more": torch.ones(2)} if client == 2 else {})}


def test_clients_that_keep_different_things_take_their_turns_one_by_one() -> None:
    def work(task: Task, client: State, down: State, turn: Turn) -> Model:
        return train(task, {**down, "params": down["params"] + len(client)}, turn)

    loop, stack = both(Odd(work), on=TASK)
    assert stack[-1].executed == "loop" and "different things" in stack[0].warnings[0]
    agree(loop, stack, 0.0)


# Which models


def named() -> nn.Module:
    layers = OrderedDict(first=nn.Linear(FEATURES, 5, bias=False), bend=nn.Sigmoid(), last=nn.Linear(5, CLASSES))
    return nn.Sequential(nn.Flatten(), nn.Sequential(layers))


def bent_twice() -> nn.Module:
    bend = nn.ReLU()
    return nn.Sequential(nn.Linear(FEATURES, 5), bend, nn.Linear(5, 4), bend, nn.Identity(), nn.Linear(4, CLASSES))


def two_linear() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Linear(5, CLASSES), nn.Tanh())


@pytest.mark.parametrize("make", [linear, mlp, named, bent_twice, two_linear])
def test_dense_gradients_are_those_of_autograd(make: Callable[[], nn.Module]) -> None:
    task = task_of(make)
    dense = dense_of(task)
    assert isinstance(dense, Dense)
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, FEATURES, generator=rng, dtype=torch.float64)
    y = torch.randint(CLASSES, (4, 6), generator=rng)
    first = [task.init(torch.Generator().manual_seed(i)) for i in range(4)]
    models, into = torch.stack([model["params"] for model in first]), torch.full((4, task.size), torch.nan).double()
    share = torch.full((4, 6), 1 / 6, dtype=torch.float64)
    scores = dense.gradient(dense.views(models), x, y, share, dense.views(into))
    losses = (dense.losses(scores, y) * share).sum(1)
    for i, model in enumerate(first):
        loss, gradient = task.gradient(model, type(silos()[0].train)(x[i], y[i]))
        assert torch.allclose(losses[i], loss, rtol=1e-13) and torch.allclose(into[i], gradient, rtol=1e-12, atol=1e-15)


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, FEATURES)), nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(2 * FEATURES, CLASSES)
    )


def frozen() -> nn.Module:
    module = mlp()
    module[0].weight.requires_grad_(False)  # type: ignore[index]
    return module


def tied() -> nn.Module:
    layer = nn.Linear(FEATURES, FEATURES)
    return nn.Sequential(layer, nn.Tanh(), layer)


def hooked() -> nn.Module:
    module = linear()
    module.register_forward_hook(lambda module, inputs, out: 2 * out)
    return module


class Doubled(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer(x)
        return 2 * x


def doubled() -> nn.Module:
    return Doubled(nn.Linear(FEATURES, CLASSES))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (batchnorm, "BatchNorm1d"),
        (dropout, "Dropout"),
        (convolution, "Unflatten"),
        (frozen, "frozen"),
        (tied, "twice"),
        (hooked, "hooks"),
        (doubled, "Doubled"),
    ],
)
def test_other_models_are_trained_one_by_one(make: Callable[[], nn.Module], reason: str) -> None:
    task = task_of(make)
    loop, stack = both("fedavg", on=task)
    agree(loop, stack, 0.0)
    assert [len(report.warnings) for report in stack] == [1, 0, 0]
    assert "the model cannot" in stack[0].warnings[0] and reason in stack[0].warnings[0]
    assert not any(report.warnings for report in run("fedavg", on=task, engine="auto"))


def test_other_losses_are_trained_one_by_one() -> None:
    task = Task(lambda: nn.Linear(FEATURES, 1), (FEATURES,), 1, loss=half_square, dtype=torch.float64)
    assert dense_of(task) == "its loss is neither the cross-entropy nor the squared error"


def test_auto_stacks_several_silos_with_a_small_dense_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def executed(at: Sequence[Silo]) -> str:
        return run("fedavg", on=TASK, at=at, engine="auto", rounds=1)[0].executed

    assert executed(silos()) == "stacked"
    assert executed(silos(1)) == "loop"
    monkeypatch.setattr(stacked, "LARGEST", TASK.size - 1)
    assert executed(silos()) == "loop"


def test_images_are_flattened_as_the_model_does() -> None:
    def image(one: Silo) -> Silo:
        return one._replace(train=pixels(one.train), test=pixels(one.test))

    def pixels(split: Any) -> Any:
        return split._replace(x=torch.stack([split.x, split.x.sin()], 2)[:, None])

    make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(2 * FEATURES, CLASSES))  # noqa: E731
    task = Task(make, (1, FEATURES, 2), CLASSES, dtype=torch.float64)
    loop, stack = both("fedavg", on=task, at=[image(one) for one in silos()])
    assert stack[-1].executed == "stacked"
    agree(loop, stack, TOLERANCE[torch.float64])


# In a run


def test_runs_record_how_they_were_executed(tmp_path: Path) -> None:
    at = amity.own_silos({one.name: (*one.train, *one.test) for one in silos()})
    how: Any = {"silos": at, "model": mlp}
    asked = amity.Run("heurfedamp", rounds=2, epochs=2)
    results = {engine: amity.run(replace(asked, engine=engine), **how) for engine in ("auto", "stacked", "loop")}
    executed = {engine: [line["executed"] for line in result.lines] for engine, result in results.items()}
    assert executed == {"auto": ["stacked"] * 2, "stacked": ["stacked"] * 2, "loop": ["loop"] * 2}
    for engine in ("auto", "stacked"):
        for name in ("ash", "fir"):
            states = [results[which].model(name).state_dict() for which in (engine, "loop")]
            assert difference(*states) <= TOLERANCE[torch.float32]

    amity.run(asked, out=tmp_path / "run", **how)
    longer = amity.run(replace(asked, rounds=3, engine="loop"), out=tmp_path / "run", resume=True, **how)
    assert [line["executed"] for line in longer.lines] == ["stacked", "stacked", "loop"]
