"""Models: exact parameter counts, output shapes, the choice by `auto`, and refusals."""

from typing import Any

import pytest
import torch
from small import run

from amity.contract import InputError, Silo, Split
from amity.learn.task import Task
from amity.methods import build
from amity.models import MODELS, ResNet18, make, resolve
from amity.models.resnet import Block


def parameters(name: str, shape: tuple[int, ...], classes: int) -> int:
    return sum(p.numel() for p in make(name, shape, classes)().parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "count"),
    [
        # methods.md, section 6
        ("cnn", (1, 28, 28), 10, 1_663_370),
        ("cnn", (1, 28, 28), 62, 1_690_046),
        ("cnn-apple", (1, 28, 28), 10, 431_080),
        ("cnn-apple", (3, 28, 28), 10, 432_080),
        ("cnn-apple", (1, 28, 28), 11, 431_581),
        ("cnn-apple", (3, 28, 28), 9, 431_579),
        ("resnet18", (3, 32, 32), 100, 11_220_132),
        # by hand
        ("mlr", (1, 28, 28), 10, 785 * 10),
        ("mlp", (20,), 10, 21 * 64 + 65 * 10),
        ("cnn1d", (6, 128), 6, (6 * 5 + 1) * 32 + (32 * 5 + 1) * 64 + (64 * 5 + 1) * 64 + 65 * 6),
        ("cnn1d", (6, 50), 6, 32_230),
    ],
)
def test_parameter_counts(name: str, shape: tuple[int, ...], classes: int, count: int) -> None:
    assert parameters(name, shape, classes) == count


@pytest.mark.parametrize(
    "shape", [(20,), (5, 4), (6, 3), (6, 128), (1, 8, 8), (1, 16, 16), (3, 17, 30), (1, 28, 28), (3, 32, 32)]
)
@pytest.mark.parametrize("name", [*MODELS, "auto"])
def test_a_model_maps_examples_to_classes_or_refuses(name: str, shape: tuple[int, ...]) -> None:
    try:
        module: Any = make(name, shape, 7)()
    except InputError as error:
        assert name in str(error) and str(shape) in str(error) and "\n" not in str(error)
        axes = 2 if MODELS[name].signals else 3
        assert MODELS[name].smallest and (len(shape) != axes or min(shape[1:]) < 16)
    else:
        assert module(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(("name", "smallest"), [("cnn", 4), ("resnet18", 8), ("cnn-apple", 16)])
def test_the_smallest_image_works_and_a_smaller_one_is_refused(name: str, smallest: int) -> None:
    assert make(name, (1, smallest, smallest), 2)()(torch.zeros(2, 1, smallest, smallest)).shape == (2, 2)
    for shape in [(1, smallest - 1, smallest), (1, smallest, smallest - 1), (smallest, smallest), (20,)]:
        with pytest.raises(InputError, match=f"at least {smallest}x{smallest}"):
            make(name, shape, 2)


def test_the_shortest_signal_works_and_a_shorter_one_is_refused() -> None:
    assert make("cnn1d", (3, 4), 2)()(torch.zeros(2, 3, 4)).shape == (2, 2)
    for shape in [(3, 3), (20,), (1, 28, 28)]:
        with pytest.raises(InputError, match=r"signals \(channels, time\) of at least 4 steps"):
            make("cnn1d", shape, 2)


def test_cnn1d_hears_what_happens_whenever_it_happens() -> None:
    """The same bump, four steps later (two pools) and away from the edges, gives the same features."""
    torch.manual_seed(0)
    module: Any = make("cnn1d", (2, 64), 3)()
    x = torch.zeros(1, 2, 64)
    x[:, :, 28:32] = torch.randn(2, 4)
    assert torch.allclose(module(x), module(x.roll(4, dims=2)), atol=1e-6)
    assert not torch.allclose(module(x), module(-x), atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "name"),
    [((20,), "mlp"), ((30, 30), "mlp"), ((1, 8, 8), "mlp"), ((1, 15, 40), "mlp"), ((1, 16, 16), "cnn"),
     ((3, 32, 32), "cnn"), ((6, 128), "cnn1d"), ((1, 32), "cnn1d"), ((128, 6), "mlp"), ((6, 31), "mlp")],
)  # fmt: skip
def test_auto_goes_by_the_data(shape: tuple[int, ...], name: str) -> None:
    assert resolve("auto", shape) == name
    assert parameters("auto", shape, 10) == parameters(name, shape, 10)


def test_a_name_resolves_to_itself() -> None:
    assert [resolve(name, (20,)) for name in MODELS] == list(MODELS)


def test_the_global_seed_decides_the_weights() -> None:
    factory = make("mlp", (20,), 10)
    torch.manual_seed(3)
    first, second = factory(), factory()
    torch.manual_seed(3)
    again = factory()
    for a, b, c in zip(first.parameters(), again.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)


def test_making_a_factory_draws_nothing() -> None:
    before = torch.get_rng_state()
    make("cnn", (1, 28, 28), 10)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown model 'cnn-aple': did you mean cnn-apple"):
        make("cnn-aple", (1, 28, 28), 10)
    with pytest.raises(InputError, match="auto"):
        resolve("transformer", (20,))


@pytest.mark.parametrize("name", ["cnn", "cnn-apple"])
def test_relu_after_the_pool_is_the_papers_network(name: str) -> None:
    ours: Any = make(name, (1, 28, 28), 10)()
    conv1, pool, relu, conv2, _, _, *rest = ours
    theirs = torch.nn.Sequential(conv1, relu, pool, conv2, relu, pool, *rest)
    x, y = torch.randn(9, 1, 28, 28), torch.arange(9)
    losses = [torch.nn.functional.cross_entropy(net(x), y) for net in (ours, theirs)]
    ours_gradient, theirs_gradient = (torch.autograd.grad(loss, list(ours.parameters())) for loss in losses)
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for a, b in zip(ours_gradient, theirs_gradient, strict=True))


@pytest.mark.parametrize(("stem", "count"), [("cifar", 11_220_132), ("imagenet", 11_227_812)])
def test_resnet18_is_as_large_as_it_should_be(stem: Any, count: int) -> None:
    net = ResNet18((3, 32, 32), 100, stem)
    assert sum(p.numel() for p in net.parameters()) == count
    buffers = list(net.buffers())
    assert sum(b.numel() for b in buffers if b.is_floating_point()) == 9_600
    assert sum(b.numel() for b in buffers if not b.is_floating_point()) == 20
    sides: list[int] = []
    for layer in net:
        if type(layer).__name__ == "Block":
            layer.register_forward_hook(lambda module, args, out: sides.append(out.shape[2]))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 100)
    first = {"cifar": 32, "imagenet": 8}[stem]
    assert sides == [first] * 2 + [first // 2] * 2 + [first // 4] * 2 + [first // 8] * 2


def test_a_block_of_resnet18_adds_to_what_went_in() -> None:
    block: Any = Block(4, 4)
    torch.nn.init.zeros_(block.residual[-1].weight)  # the residual is then zero
    x = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(x), x.relu())
    torch.nn.init.ones_(block.residual[-1].weight)
    assert torch.equal(block(x), (x + block.residual(x)).relu())
    wider = Block(4, 8)
    assert wider(x).shape == (2, 8, 3, 3)
    assert torch.equal(wider(x), (wider.shortcut(x) + wider.residual(x)).relu())


def test_resnet18_in_a_round_of_fedamp_has_its_statistics_mixed() -> None:
    rng = torch.Generator().manual_seed(0)
    at = [
        Silo(name, data := Split(scale * torch.randn(4, 3, 32, 32, generator=rng), torch.tensor([0, 1, 2, 0])), data)
        for name, scale in (("a", 1.0), ("b", 3.0))
    ]
    on = Task(make("resnet18", (3, 32, 32), 3), (3, 32, 32), 3)
    method = build("fedamp")
    (report,) = run(method, on=on, at=at, rounds=1, epochs=1, solver=method.solver._replace(batch=4))
    kept = report.progress.server
    assert kept["buffers"].shape == (2, 9_600) and kept["counts"].tolist() == [[1] * 20] * 2
    assert not torch.equal(*kept["buffers"])
    who = torch.arange(2)
    down = method.download(kept, who, 2, lambda role, key: torch.Generator())
    assert down.weights is not None
    for key in ("params", "buffers"):
        mixed = (down.weights.double() @ kept[key].double()).float()
        torch.testing.assert_close(down.each[key], mixed, rtol=1e-4, atol=1e-5)
    assert (down.weights > 0).all()


PICTURES = {
    "noise": lambda: torch.randn(20, 1, 28, 28),
    "black": lambda: torch.zeros(20, 1, 28, 28),  # all that is pooled is equal
    "drawn": lambda: (torch.rand(20, 1, 28, 28) > 0.8).float(),
    "oblong": lambda: torch.randn(20, 1, 17, 23),
    "coloured": lambda: torch.randn(20, 3, 32, 32),
}


def gradients(module: Any, x: torch.Tensor, forward: Any) -> list[torch.Tensor]:
    module.zero_grad()
    scores = forward(x)
    torch.nn.functional.cross_entropy(scores, torch.arange(len(x)) % 10).backward()
    return [scores.detach(), *(p.grad.clone() for p in module.parameters())]


def spectra_used(module: Any, x: torch.Tensor) -> bool:
    """Whether the second convolution was made without calling its layer."""
    called: list[bool] = []
    hook = module[3].register_forward_hook(lambda *_: called.append(True))
    module(x)
    hook.remove()
    return not called


@pytest.mark.parametrize("name", ["cnn", "cnn-apple"])
@pytest.mark.parametrize("pictures", PICTURES)
def test_a_network_by_spectra_is_its_layers_one_after_the_other(name: str, pictures: str) -> None:
    torch.manual_seed(0)
    x = PICTURES[pictures]()
    module: Any = make(name, tuple(x.shape[1:]), 10)()
    assert spectra_used(module, x)
    layers: Any = torch.nn.Sequential.forward
    found, plain = gradients(module, x, module), gradients(module, x, lambda x: layers(module, x))
    exact: Any = make(name, tuple(x.shape[1:]), 10)().double()
    exact.load_state_dict(module.state_dict())
    for a, b, c in zip(found, plain, gradients(exact, x.double(), lambda x: layers(exact, x)), strict=True):
        rounding = (b - c).abs().max()  # of the layers themselves: sums that cancel, differently on every machine
        assert (a - c).abs().max() <= rounding + 1e-5 * c.abs().max().clamp(min=1e-3)


def test_few_pictures_and_other_numbers_go_through_the_layers() -> None:
    x = torch.randn(16, 1, 28, 28)
    module: Any = make("cnn", (1, 28, 28), 10)()
    assert spectra_used(module, x) and not spectra_used(module, x[:15])
    assert module(x[:0]).shape == (0, 10)
    assert not spectra_used(module.bfloat16(), x.bfloat16())


@pytest.mark.parametrize("layer", [0, 3])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_cnn_hides_no_number_that_is_not_finite(layer: int, number: float) -> None:
    x = torch.randn(16, 1, 28, 28)
    module: Any = make("cnn", (1, 28, 28), 10)()
    module[layer].weight.data[0, 0, 2, 2] = number
    layers: Any = torch.nn.Sequential.forward
    plain = layers(module, x).isfinite()
    assert not plain.all() and not (module(x).isfinite() & ~plain).any()
