"""A task gives what an ordinary module and autograd give."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable

import pytest
import torch
from small import batchnorm, dropout, fresh_task, linear, mlp, same, silo, silos, task
from torch import Tensor, nn
from torch.nn import functional as F

from amity.contract import Data, InputError, Model, Split
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.learn.task import Task


class ConvNet(nn.Module):
    """Convolution and BatchNorm, a frozen parameter, an integer buffer that the model uses as an index."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 3)
        self.shift = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]), requires_grad=False)
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.conv(x))).mean((2, 3))
        out: Tensor = self.last(hidden)[:, self.order] + self.shift
        return out


def images(count: int = 6) -> Split:
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(count, 2, 5, 4, generator=rng, dtype=torch.float64)
    return Split(x, torch.randint(3, (count,), generator=rng))


def conv_task() -> Task:
    return Task(ConvNet, (2, 5, 4), 3, dtype=torch.float64)


def vector_batch() -> Split:
    return silo("ash", 9).train


@pytest.mark.parametrize("make", [linear, mlp, batchnorm])
def test_gradient_equals_autograd_on_a_copy(make: Callable[[], nn.Module]) -> None:
    check_gradient(task(make), vector_batch())


def test_gradient_equals_autograd_on_a_convolution() -> None:
    check_gradient(conv_task(), images())


def check_gradient(on: Task, batch: Split) -> None:
    """Loss, gradient and buffers of two steps, through names: the flat order is the task's own business."""
    model = on.init(stream(1, "model"))
    plain = on.module(model).train()
    working = on.working(model)
    for _ in range(2):
        loss, gradient = on.gradient(working, batch)
        plain.zero_grad()
        wanted = F.cross_entropy(plain(batch.x), batch.y)
        wanted.backward()
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-12, atol=0)
        got = on.layout.tensors({"params": gradient, "buffers": working["buffers"], "counts": working["counts"]})
        trained = {name: p.grad for name, p in plain.named_parameters() if p.requires_grad}
        for name, value in trained.items():
            torch.testing.assert_close(got[name], value, rtol=1e-12, atol=1e-14)
    kept = on.export_state(on.release(working))
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(kept[name], buffer, rtol=1e-12, atol=1e-14)


def test_gradient_leaves_the_model_it_is_given_alone() -> None:
    on = task(batchnorm)
    model = on.init(stream(1, "model"))
    before = {key: value.clone() for key, value in model.items()}
    first = on.gradient(model, vector_batch())[1].clone()
    assert same(model, before)
    on.gradient(on.init(stream(2, "model")), vector_batch())
    assert torch.equal(on.gradient(model, vector_batch())[1], first)


def test_released_models_are_not_overwritten() -> None:
    on = task(batchnorm)
    one = on.release(on.working(on.init(stream(1, "model"))))
    kept = {key: value.clone() for key, value in one.items()}
    on.gradient(on.init(stream(2, "model")), vector_batch())
    on.evaluate(on.init(stream(3, "model")), vector_batch())
    assert same(one, kept)


def test_evaluation_is_the_modules_own() -> None:
    on = conv_task()
    model = on.init(stream(1, "model"))
    data = images(7)
    score = on.evaluate(model, data)
    plain = on.module(model)
    assert not plain.training
    with torch.no_grad():
        out = plain(data.x)
    assert torch.equal(score.right, out.argmax(1) == data.y)
    assert score.loss == pytest.approx(F.cross_entropy(out, data.y, reduction="sum").item(), rel=1e-12)
    assert score.main == pytest.approx(100 * (out.argmax(1) == data.y).sum().item() / 7)


def test_a_broken_model_is_right_about_nothing() -> None:
    """The largest of outputs that are all NaN is the first: class 0, which many examples are of."""
    on = task()
    model = on.init(stream(1, "model"))
    model["params"] = torch.full_like(model["params"], torch.nan)
    x, y = vector_batch()
    score = on.measure(model, Data(Split(x, y), Split(x, y)), Split(x, torch.zeros_like(y)))
    assert score.main == score.val == 0.0 and score.metrics["balanced_accuracy"] == 0.0


def test_training_loss_of_no_examples_is_not_a_number() -> None:
    """All data are in one place, and this silo is another."""
    on = fresh_task(linear)
    on.train_loss = True
    x, y = vector_batch()
    score = on.measure(on.init(stream(1, "model")), Data(Split(x[:0], y[:0]), None), Split(x, y))
    assert score.train_loss is not None and math.isnan(score.train_loss)


def test_evaluation_in_parts_equals_evaluation_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    on = task(batchnorm)
    model, data = on.init(stream(1, "model")), vector_batch()
    whole = on.evaluate(model, data)
    monkeypatch.setattr("amity.learn.task._EVALUATION_BATCH", 4)
    parts = on.evaluate(model, data)
    assert torch.equal(parts.right, whole.right) and parts.loss == pytest.approx(whole.loss, rel=1e-12)


def test_evaluation_changes_nothing_and_draws_nothing() -> None:
    for make in (batchnorm, dropout):
        on = task(make)
        model = on.init(stream(1, "model"))
        before = {key: value.clone() for key, value in model.items()}
        assert on.evaluate(model, vector_batch()).loss == on.evaluate(model, vector_batch()).loss
        assert same(model, before)


# Models that draw random numbers


def test_dropout_draws_from_the_keyed_stream() -> None:
    on = task(dropout)
    assert on.draws and not task(batchnorm).draws
    model, batch = on.init(stream(1, "model")), vector_batch()
    torch.manual_seed(1)
    one = on.gradient(model, batch, stream(5, "inner"))[1].clone()
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = on.gradient(model, batch, stream(5, "inner"))[1].clone()
    assert torch.equal(one, again)
    assert torch.equal(torch.get_rng_state(), state), "the process-wide generator moved"
    assert not torch.equal(on.gradient(model, batch, stream(6, "inner"))[1], one)


def test_dropout_streams_move_on_from_batch_to_batch() -> None:
    on = task(dropout)
    model, batch = on.init(stream(1, "model")), vector_batch()
    rng = stream(5, "inner")
    first = on.gradient(model, batch, rng)[1].clone()
    assert not torch.equal(on.gradient(model, batch, rng)[1], first)


class Noisy(nn.Module):
    """Draws in several ways: functional dropout, noise like a tensor, noise by size, in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(F.dropout(x, 0.3, self.training))
        if self.training:
            out = out + torch.randn_like(out) + torch.rand(3, dtype=out.dtype) + torch.empty_like(out).normal_()
            out = out * torch.bernoulli(torch.full_like(out, 0.8))
        return out


def test_other_random_operations_are_keyed_too() -> None:
    on = Task(Noisy, (3,), 3, dtype=torch.float64)
    assert on.draws
    model, batch = on.init(stream(1, "model")), vector_batch()
    grads = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        grads.append(on.gradient(model, batch, stream(5, "inner"))[1].clone())
    assert torch.equal(*grads)


def test_threads_do_not_disturb_each_other() -> None:
    on = fresh_task(dropout)
    model, batch = on.init(stream(1, "model")), vector_batch()

    def work(out: list[Tensor]) -> None:
        rng = stream(5, "inner")
        working = on.working(model)
        for _ in range(20):
            gradient = on.gradient(working, batch, rng)[1]
            working["params"].add_(gradient, alpha=-0.1)
        out.append(on.release(working)["params"])

    results: list[list[Tensor]] = [[] for _ in range(3)]
    threads = [threading.Thread(target=work, args=(out,)) for out in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone: list[Tensor] = []
    work(alone)
    assert all(torch.equal(out[0], alone[0]) for out in results)


# First models


def test_first_models_are_keyed() -> None:
    on = task(mlp)
    fed = federation_of(silos(), 3, 7)
    torch.manual_seed(1)
    shared = on.initial(fed)
    state = torch.get_rng_state()
    assert same(shared, fresh_task(mlp).initial(fed))
    assert torch.equal(torch.get_rng_state(), state), "the process-wide generator moved"
    own = [on.initial(fed, client)["params"] for client in range(3)]
    assert not any(torch.equal(a, b) for a, b in [(own[0], own[1]), (own[1], own[2]), (own[0], shared["params"])])
    assert not torch.equal(on.initial(fed._replace(seed=8))["params"], shared["params"])


def test_first_model_is_the_modules_own_initialisation() -> None:
    rng = stream(7, "init", 0)
    torch.manual_seed(rng.initial_seed())
    want = mlp().double().state_dict()
    assert same(dict(task(mlp).export_state(task(mlp).init(rng))), dict(want))


# Export and import


def test_export_is_a_state_dict_of_the_module() -> None:
    on = conv_task()
    working = on.working(on.init(stream(1, "model")))
    on.gradient(working, images())  # statistics and counters move away from their first values
    model = on.release(working)
    state = on.export_state(model)
    plain = ConvNet().double()
    plain.load_state_dict(state)  # strict: every name, frozen ones too
    assert all(value.is_contiguous() for value in state.values())
    assert same(on.import_state(state), model)
    data = images()
    with torch.no_grad():
        assert torch.equal(plain.eval()(data.x).argmax(1) == data.y, on.evaluate(model, data).right)


def test_exported_weights_are_a_copy() -> None:
    on = task()
    model = on.init(stream(1, "model"))
    on.export_state(model)["weight"].zero_()
    on.module(model).get_parameter("weight").data.zero_()
    assert model["params"].abs().min() > 0


def test_integer_buffers_survive_training() -> None:
    """Counters advance, an index buffer stays: every buffer is part of the model, integers too."""
    on = conv_task()
    model = on.init(stream(1, "model"))
    working = on.working(model)
    for _ in range(3):
        on.gradient(working, images())
    state = on.export_state(on.release(working))
    assert state["norm.num_batches_tracked"].item() == 3
    assert state["order"].tolist() == [2, 0, 1] and state["order"].dtype == torch.int64


def test_frozen_parameters_are_no_part_of_the_vector() -> None:
    on = conv_task()
    assert on.size == sum(p.numel() for p in ConvNet().parameters() if p.requires_grad)
    working = on.working(on.init(stream(1, "model")))
    _, gradient = on.gradient(working, images())
    working["params"].sub_(gradient)
    assert torch.equal(on.export_state(on.release(working))["shift"], torch.tensor([0.3, -0.2, 0.1]).double())


def frozen_at_random() -> nn.Module:
    """A random layer that is not trained: drawn anew for every client, it must still be one for all."""
    first, last = nn.Linear(3, 4), nn.Linear(4, 3)
    first.requires_grad_(False)
    return nn.Sequential(first, nn.Tanh(), last)


def test_import_state_refuses_what_does_not_fit() -> None:
    on = task(mlp)
    state = on.export_state(on.init(stream(1, "model")))
    with pytest.raises(InputError, match=r"first weights must fit the model: .*0\.weight"):
        on.import_state({key: value for key, value in state.items() if key != "0.weight"})
    with pytest.raises(InputError, match="must fit the model.*extra"):
        on.import_state({**state, "extra": torch.zeros(1)})
    with pytest.raises(InputError, match="must fit the model.*size mismatch"):
        on.import_state({**state, "0.weight": torch.zeros(9, 9)})
    with pytest.raises(InputError, match="must be finite numbers"):
        on.import_state({**state, "0.weight": torch.full((4, 3), torch.nan)})
    with pytest.raises(InputError, match="must be finite"):
        fresh_task(mlp, start={**state, "0.bias": torch.full((4,), torch.inf)})


def test_given_weights_are_the_first_model_of_all() -> None:
    on = task(mlp)
    model = on.init(stream(9, "given"))
    given = fresh_task(mlp, start=on.export_state(model))
    fed = federation_of(silos(), 3, 1)
    assert same(given.initial(fed), model)
    with pytest.raises(InputError, match="init=shared"):
        given.initial(fed, 0)


# What a module must be


def test_wrong_number_of_outputs() -> None:
    with pytest.raises(InputError, match=r"one score per class, \[n, 3\], got \(2, 5\).*3 outputs"):
        Task(lambda: nn.Linear(4, 5), (4,), 3)


def test_output_that_is_no_tensor() -> None:
    with pytest.raises(InputError, match="one score per class.*got tuple"):
        Task(lambda: Pair(), (4,), 3)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), x


def test_wrong_input_shape() -> None:
    with pytest.raises(InputError, match=r"must accept examples of shape \(7,\)"):
        Task(linear, (7,), 3)


def test_model_without_trainable_parameters() -> None:
    with pytest.raises(InputError, match="at least one trainable parameter"):
        Task(lambda: nn.Linear(3, 3).requires_grad_(False), (3,), 3)


def test_probing_leaves_the_template_alone() -> None:
    """The two blank examples must not become BatchNorm statistics of the first model."""
    model: Model = task(batchnorm).init(stream(0, "x"))
    assert model["buffers"].tolist() == [0.0] * 4 + [1.0] * 4 and model["counts"].tolist() == [0]


def test_data_are_brought_into_the_tasks_type_and_order() -> None:
    split = images()
    ready = Task(ConvNet, (2, 5, 4), 3).prepare(split)
    assert ready.x.dtype == torch.float32 and ready.x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(ready.x.double(), split.x.float().double()) and torch.equal(ready.y, split.y)
    tokens = Split(torch.arange(6).view(2, 3), torch.tensor([0, 1]))
    assert task().prepare(tokens).x.dtype == torch.int64


def test_task_can_be_copied_into_another_thread_by_reference_only() -> None:
    """Workspaces are per thread: a gradient in one thread leaves another's working model alone."""
    on = fresh_task(mlp)
    working = on.working(on.init(stream(1, "model")))
    before = working["params"].clone()
    other = copy.deepcopy(on.init(stream(2, "model")))
    thread = threading.Thread(target=lambda: on.gradient(other, vector_batch()))
    thread.start()
    thread.join()
    assert torch.equal(working["params"], before)


def test_frozen_random_layers_are_one_for_all() -> None:
    """What is not trained is not sent either, so it must come out equal wherever the module is built."""
    one, other = (Task(frozen_at_random, (3,), 3, dtype=torch.float64) for _ in range(2))
    a = one.export_state(one.init(stream(1, "client")))
    b = other.export_state(other.init(stream(2, "client")))
    assert torch.equal(a["0.weight"], b["0.weight"])
    assert not torch.equal(a["2.weight"], b["2.weight"])


def test_given_weights_reach_frozen_layers() -> None:
    source = frozen_at_random().double()
    given = Task(frozen_at_random, (3,), 3, dtype=torch.float64, start=source.state_dict())
    fed = federation_of(silos(), 1, 1)
    assert same(given.export_state(given.initial(fed)), dict(source.state_dict()))
