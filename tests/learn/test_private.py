"""DP-SGD at one silo: a step by hand, Opacus' gradients of single examples, samples, noise, what nobody is shown."""

from __future__ import annotations

import math

import pytest
import torch
from opacus import GradSampleModule
from torch import nn
from torch.nn import functional as F

from amity.contract import Data, InputError, Model, Solver, Split, Turn
from amity.learn.private import Guard, PrivateTask, unseen
from amity.learn.secret_numbers import SecretNumbers
from amity.learn.task import Task
from amity.learn.train import train


def _turn(batch: int, epochs: int = 1, rate: float = 1.0) -> Turn:
    return Turn(1, epochs, Solver("sgd", rate, batch=batch), unseen(), lambda role, epoch: 0)


def _private(task: Task, split: Split, *, clip: float = 1.0, noise: float = 1e-9, batch: int = 2) -> PrivateTask:
    return PrivateTask(task, split, Guard(clip, noise, batch, most=10**9), SecretNumbers(b"a key"))


def _noisy(task: PrivateTask, model: Model, batch: int = 2) -> torch.Tensor:
    (drawn, _), *_ = task.batches(_turn(batch), "train")
    return task.slope(model, drawn).clone()


def _line() -> Task:
    """y = w x, by squared error, from w = 0."""
    return Task(lambda: nn.Linear(1, 1, bias=False), (1,), 0, dtype=torch.float64)


def test_a_step_by_hand() -> None:
    """Both examples are in the sample, since B = n. Gradients of (w x - y)^2 at w = 0 are -2 x y: -12 and 0.5.

    The first is cut to -1, the second stays: their sum over B = 2 is -0.25.
    """
    task = _line()
    split = Split(torch.tensor([[2.0], [-0.5]]).double(), torch.tensor([3.0, 0.5]).double())
    start = {**task.init(torch.Generator()), "params": torch.zeros(1, dtype=torch.float64)}
    assert _noisy(_private(task, split), start).item() == pytest.approx(-0.25, abs=1e-7)
    moved = train(_private(task, split), start, _turn(2, rate=0.1))
    assert moved["params"].item() == pytest.approx(0.025, abs=1e-7)


def _conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(12, 4))


def test_gradients_of_single_examples_are_opacus_own() -> None:
    task = Task(_conv, (2, 4, 4), 4)
    x, y = torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3, 3])
    split = task.prepare(Split(x, y))
    model = task.init(torch.Generator().manual_seed(1))
    ours = _private(task, split).each_gradient(model, split)
    theirs = GradSampleModule(task.module(model).train(), loss_reduction="sum")
    F.cross_entropy(theirs(x.clone().requires_grad_()), y, reduction="sum").backward()
    for name, parameter in theirs._module.named_parameters():
        assert torch.allclose(ours[name], parameter.grad_sample, atol=1e-6), name


def test_examples_are_clipped_before_they_are_summed_whatever_their_number() -> None:
    task = Task(_conv, (2, 4, 4), 4)
    x, y = 50 * torch.randn(9, 2, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
    split = task.prepare(Split(x, y))
    model = task.init(torch.Generator().manual_seed(1))
    private = _private(task, split, clip=0.1, batch=9)
    each = private.each_gradient(model, split)
    flat = torch.cat([each[slot.name].flatten(1) for slot in task.layout.params], 1)  # in the module's own order
    cut = flat * (0.1 / flat.norm(dim=1).clamp(min=0.1))[:, None]
    assert cut.norm(dim=1).max() <= 0.1 + 1e-6
    found = task.layout.tensors({**model, "params": _noisy(private, model, 9)})
    together = torch.cat([found[slot.name].flatten() for slot in task.layout.params])
    assert torch.allclose(together, cut.sum(0) / 9, atol=1e-6)


def test_an_example_with_an_infinite_gradient_counts_nothing() -> None:
    task = _line()
    split = Split(torch.tensor([[torch.inf], [0.5]]).double(), torch.tensor([1.0, 0.5]).double())
    start = {**task.init(torch.Generator()), "params": torch.zeros(1, dtype=torch.float64)}
    assert _noisy(_private(task, split), start).item() == pytest.approx(-0.25, abs=1e-7)


def test_noise_has_the_deviation_that_it_is_said_to_have() -> None:
    """Labels that the model gives exactly have no gradient: what is left is noise, of deviation sigma C / B."""
    task = Task(lambda: nn.Linear(100, 1, bias=False), (100,), 0, dtype=torch.float64)
    split = Split(torch.zeros(20, 100).double(), torch.zeros(20).double())
    private = _private(task, split, clip=0.5, noise=3.0, batch=4)
    model = task.init(torch.Generator())
    found = torch.cat([_noisy(private, model, 4) for _ in range(200)])
    wanted, count = 3.0 * 0.5 / 4, len(found)
    assert abs(found.mean()) < 4 * wanted / math.sqrt(count)
    assert abs(found.std() / wanted - 1) < 4 / math.sqrt(2 * count)
    ranks = found.sort().values / wanted
    normal = torch.distributions.Normal(0.0, 1.0).cdf(ranks)
    steps = torch.arange(1, count + 1) / count
    assert (normal - steps).abs().max() < 2.0 / math.sqrt(count)  # Kolmogorov and Smirnov, far below one in a thousand


def test_every_example_is_drawn_by_itself_with_the_probability_of_the_plan() -> None:
    """Example i has the gradient of coordinate i alone, so a step shows who was in its sample."""
    task = Task(lambda: nn.Linear(10, 1, bias=False), (10,), 0, dtype=torch.float64)
    split = Split(torch.eye(10).double(), torch.full((10,), -5.0).double())
    private = _private(task, split, batch=3)
    model = {**task.init(torch.Generator()), "params": torch.zeros(10, dtype=torch.float64)}
    there = torch.stack([_noisy(private, model, 3) * 3 > 0.5 for _ in range(500)]).double()  # [steps, n]
    spread = math.sqrt(0.3 * 0.7 / 500)
    assert (there.mean(0) - 0.3).abs().max() < 4.5 * spread
    assert abs(there.sum(1).var() / (10 * 0.3 * 0.7) - 1) < 0.3  # binomial: no two are drawn together, none in turn
    assert there.sum(1).min() == 0  # an empty sample is one, too
    assert abs((there[:-1] * there[1:]).mean() - 0.09) < 0.02  # and no step knows of the one before


def test_an_epoch_has_as_many_steps_as_batches_cover_the_examples() -> None:
    private = _private(_line(), Split(torch.ones(7, 1).double(), torch.ones(7).double()), batch=3)
    assert len(list(private.batches(_turn(3, epochs=2), "train"))) == private.steps(_turn(3, epochs=2)) == 6


def test_noise_is_new_for_two_with_the_same_data() -> None:
    task = _line()
    split = Split(torch.zeros(2, 1).double(), torch.zeros(2).double())
    model = task.init(torch.Generator())
    guard = Guard(1.0, 1.0, 2, most=9)
    one, other = (PrivateTask(task, split, guard, SecretNumbers(key)) for key in (b"one", b"other"))
    assert len({_noisy(one, model).item(), _noisy(one, model).item(), _noisy(other, model).item()}) == 3


def test_methods_see_no_example_and_no_loss() -> None:
    task = _line()
    private = _private(task, Split(torch.ones(2, 1).double(), torch.ones(2).double()))
    model = task.init(torch.Generator())
    (batch, _), *_ = private.batches(_turn(2), "train")
    assert private.gradient(model, batch)[0].isnan()
    data: Data = unseen()
    for look in (
        lambda: batch.x,
        lambda: batch.y,
        lambda: data.train.y,
        lambda: list(data.train),
        lambda: data.train[0],
    ):
        with pytest.raises(InputError, match="noisy gradients alone"):
            look()
    with pytest.raises(InputError, match="noisy gradients alone"):
        private.gradient(model, Split(torch.ones(2, 1).double(), torch.ones(2).double()))


def test_what_was_not_planned_is_refused() -> None:
    task = _line()
    split = Split(torch.ones(2, 1).double(), torch.ones(2).double())
    model = task.init(torch.Generator())
    private = PrivateTask(task, split, Guard(1.0, 1.0, 2, most=2), SecretNumbers(b"a key"))
    _noisy(private, model), _noisy(private, model)
    with pytest.raises(InputError, match="privacy is spent, after the 2 noisy gradients"):
        _noisy(private, model)
    with pytest.raises(InputError, match="size of the plan, 2, the method asks for 1"):
        _noisy(private, model, batch=1)
    assert private.made == 2


def test_models_with_dropout_are_trained() -> None:
    task = Task(lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2)), (3,), 2)
    private = _private(task, Split(torch.randn(6, 3), torch.arange(6) % 2), batch=3)
    after = train(private, task.init(torch.Generator()), _turn(3))
    assert after["params"].isfinite().all()
