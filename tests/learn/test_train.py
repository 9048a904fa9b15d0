"""The local loop equals an ordinary module trained by torch.optim, step by step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from small import batchnorm, dropout, linear, mlp, near, same, silo, silos, task, turn_of
from torch import Tensor, nn
from torch.nn import functional as F

from amity.contract import Data, Model, Solver, Split, Turn
from amity.federation.plan import federation_of
from amity.learn.streams import order, stream
from amity.learn.task import Task
from amity.learn.train import batches, descent, proximal, train

SGD = Solver("sgd", 0.1, batch=4)
MOMENTUM = Solver("sgd", 0.1, momentum=0.9, batch=4)
ADAM = Solver("adam", 0.01, batch=4)
solvers = pytest.mark.parametrize("solver", [SGD, MOMENTUM, ADAM], ids=["sgd", "momentum", "adam"])


def turn(solver: Solver, *, size: int = 10, epochs: int = 2, round: int = 1) -> Turn:
    at = [silo("ash", size)]
    return turn_of(federation_of(at, 5, 3), at, 0, solver, round=round, epochs=epochs)


def reference(
    on: Task, start: Model, turn: Turn, pull: float = 0.0, centre: Tensor | None = None, rate: float | None = None
) -> nn.Module:
    """The loop that anybody would write, with torch's own optimisers and the documented order of examples."""
    module = on.module(start).train()
    fixed = {} if centre is None else on.layout.tensors({**start, "params": centre})
    solver = turn.solver
    rate = solver.rate if rate is None else rate
    if solver.optimizer == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    else:
        optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=solver.momentum)
    x, y = turn.data.train
    for epoch in range(1, turn.epochs + 1):
        for chosen in order(turn.seed("train", epoch), len(y)).split(solver.batch):
            if len(chosen) == 1 and any(isinstance(m, nn.BatchNorm1d) for m in module.modules()):
                continue
            optimizer.zero_grad()
            loss = F.cross_entropy(module(x[chosen]), y[chosen])
            if centre is not None:
                far = sum(((p - fixed[name]) ** 2).sum() for name, p in module.named_parameters())
                loss = loss + pull / 2 * far
            loss.backward()
            optimizer.step()
    return module


def equal(on: Task, model: Model, module: nn.Module, tolerance: float = 1e-10) -> None:
    state = on.export_state(model)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=tolerance, atol=tolerance)


@solvers
@pytest.mark.parametrize("make", [linear, mlp, batchnorm])
def test_training_equals_torch_optim(solver: Solver, make: Callable[[], nn.Module]) -> None:
    on = task(make)
    start = on.init(stream(1, "model"))
    here = turn(solver)
    equal(on, train(on, start, here), reference(on, start, here))


@solvers
def test_every_step_equals_torch_optim(solver: Solver) -> None:
    """The same gradients, step by step: no step may lag behind or run ahead."""
    rng = torch.Generator().manual_seed(0)
    params = torch.randn(6, generator=rng, dtype=torch.float64)
    theirs = params.clone().requires_grad_()
    optimizer = (
        torch.optim.Adam([theirs], lr=solver.rate)
        if solver.optimizer == "adam"
        else torch.optim.SGD([theirs], lr=solver.rate, momentum=solver.momentum)
    )
    step = descent(turn(solver), params)
    for _ in range(5):
        gradient = torch.randn(6, generator=rng, dtype=torch.float64)
        kept = gradient.clone()
        step(gradient)
        theirs.grad = kept
        optimizer.step()
        assert near(params, theirs.detach(), 1e-14)


@solvers
def test_proximal_term_is_part_of_the_objective(solver: Solver) -> None:
    """Added before the optimiser, so that Adam sees the gradient of the true objective."""
    on = task(mlp)
    start, centre = on.init(stream(1, "model")), on.init(stream(2, "model"))["params"]
    here = turn(solver)
    trained = train(on, start, here, terms=[proximal(0.7, centre)])
    equal(on, trained, reference(on, start, here, 0.7, centre))
    assert not near(trained["params"], train(on, start, here)["params"])


def test_terms_add_up() -> None:
    on = task()
    start, here = on.init(stream(1, "model")), turn(SGD)
    centre = torch.ones_like(start["params"])
    two = train(on, start, here, terms=[proximal(0.2, centre), proximal(0.3, centre)])
    assert near(two["params"], train(on, start, here, terms=[proximal(0.5, centre)])["params"])


def test_proximal_term_is_exactly_zero_at_its_centre() -> None:
    centre = torch.tensor([1e8, -3.0, 1 / 3])
    assert proximal(1e6, centre)(centre.clone()).tolist() == [0, 0, 0]
    params = torch.tensor([1.0, 2.0])
    assert proximal(0.5, torch.zeros(2))(params).tolist() == [0.5, 1.0] and params.tolist() == [1, 2]


def test_a_strong_pull_holds_the_model_at_its_centre() -> None:
    on = task()
    start = on.init(stream(1, "model"))
    moved = [
        (train(on, start, turn(SGD), terms=[proximal(weight, start["params"])])["params"] - start["params"]).norm()
        for weight in (0.0, 1.0, 9.0)
    ]
    assert moved[0] > moved[1] > moved[2] > 0


def test_rate_decays_by_the_round() -> None:
    on = task()
    start = on.init(stream(1, "model"))
    solver = MOMENTUM._replace(decay=0.5)
    assert [solver.rate_at(round) for round in (1, 2, 3)] == [0.1, 0.05, 0.025]
    third = turn(solver, round=3)
    equal(on, train(on, start, third), reference(on, start, third, rate=0.025))


def test_a_given_rate_replaces_the_solvers() -> None:
    params = torch.zeros(2)
    descent(turn(SGD._replace(decay=0.5), round=4), params, rate=2.0)(torch.tensor([1.0, -1.0]))
    assert params.tolist() == [-2, 2]


@pytest.mark.parametrize(("size", "batch", "kept"), [(9, 4, [4, 4]), (10, 4, [4, 4, 2]), (3, 1, []), (5, 8, [5])])
def test_last_batch_of_one_is_left_out_before_batchnorm(size: int, batch: int, kept: list[int]) -> None:
    here = turn(SGD._replace(batch=batch), size=size, epochs=1)
    assert [len(b.y) for b, _ in batches(task(batchnorm), here)] == kept
    plain = [len(b.y) for b, _ in batches(task(), here)]
    assert sum(plain) == size and plain[:-1] == [batch] * (len(plain) - 1)


def test_training_counts_only_the_batches_it_took() -> None:
    on = task(batchnorm)
    start = on.init(stream(1, "model"))
    here = turn(SGD, size=9)
    trained = train(on, start, here)
    assert trained["counts"].tolist() == [4]
    equal(on, trained, reference(on, start, here))


def test_every_epoch_sees_every_example_once_in_another_order() -> None:
    here = turn(SGD._replace(batch=3), size=10, epochs=3)
    rows = torch.cat([b.x[:, 0] for b, _ in batches(task(), here)]).view(3, 10)
    want = here.data.train.x[:, 0].sort().values
    assert all(torch.equal(epoch.sort().values, want) for epoch in rows)
    assert not torch.equal(rows[0], rows[1]) and not torch.equal(rows[1], rows[2])


def test_examples_keep_their_labels() -> None:
    x = torch.arange(12.0, dtype=torch.float64).view(12, 1).expand(12, 3)
    here = turn(SGD)._replace(data=Data(Split(x, torch.arange(12)), None))
    for batch, _ in batches(task(), here):
        assert torch.equal(batch.x[:, 0].long(), batch.y)


def test_batches_follow_role_and_round_and_nothing_else() -> None:
    def seen(here: Turn, role: str = "train") -> list[float]:
        return [float(v) for b, _ in batches(task(), here, role) for v in b.x[:, 0]]

    assert seen(turn(SGD)) == seen(turn(ADAM))
    assert seen(turn(SGD)) != seen(turn(SGD, round=2))
    assert seen(turn(SGD)) != seen(turn(SGD), "other role")
    assert seen(turn(SGD, epochs=1)) == seen(turn(SGD, epochs=2))[:10]


def test_zero_epochs_change_nothing() -> None:
    on = task(batchnorm)
    start = on.init(stream(1, "model"))
    assert same(train(on, start, turn(ADAM, epochs=0)), start)


@solvers
def test_training_leaves_its_start_alone_and_repeats_itself(solver: Solver) -> None:
    """A fresh optimiser every time: no velocity, no moments from the call before."""
    on = task(dropout)
    start = on.init(stream(1, "model"))
    before = {key: value.clone() for key, value in start.items()}
    one = train(on, start, turn(solver))
    assert same(start, before) and same(train(on, start, turn(solver)), one)


def test_only_models_that_draw_get_a_stream() -> None:
    assert all(rng is None for _, rng in batches(task(), turn(SGD)))
    streams = [rng for _, rng in batches(task(dropout), turn(SGD, epochs=2))]
    assert len({id(rng) for rng in streams}) == 2 and len(streams) == 6  # one per epoch, moving on over its batches


def test_loss_falls() -> None:
    on = task(mlp)
    at = silos()
    start = on.init(stream(1, "model"))
    here = turn_of(federation_of(at, 5, 3), at, 1, Solver("adam", 0.05, batch=8), epochs=30)
    first, last = (on.evaluate(model, at[1].train).loss for model in (start, train(on, start, here)))
    assert last < first / 2
