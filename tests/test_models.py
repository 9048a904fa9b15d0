"""Models: exact parameter counts, output shapes, the choice by `auto`, and refusals."""

import pytest
import torch

from amity.contract import InputError
from amity.models import MODELS, make, resolve


def parameters(name, shape, classes):
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
        # by hand
        ("mlr", (1, 28, 28), 10, 785 * 10),
        ("mlp", (20,), 10, 21 * 64 + 65 * 10),
    ],
)
def test_parameter_counts(name, shape, classes, count):
    assert parameters(name, shape, classes) == count


@pytest.mark.parametrize("shape", [(20,), (5, 4), (1, 8, 8), (1, 16, 16), (3, 17, 30), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", [*MODELS, "auto"])
def test_a_model_maps_examples_to_classes_or_refuses(name, shape):
    try:
        module = make(name, shape, 7)()
    except InputError as error:
        assert name in str(error) and str(shape) in str(error) and "\n" not in str(error)
        assert name.startswith("cnn") and (len(shape) != 3 or min(shape[1:]) < 16)
    else:
        assert module(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(("name", "smallest"), [("cnn", 4), ("cnn-apple", 16)])
def test_the_smallest_image_works_and_a_smaller_one_is_refused(name, smallest):
    assert make(name, (1, smallest, smallest), 2)()(torch.zeros(1, 1, smallest, smallest)).shape == (1, 2)
    for shape in [(1, smallest - 1, smallest), (1, smallest, smallest - 1), (smallest, smallest), (20,)]:
        with pytest.raises(InputError, match=f"at least {smallest}x{smallest}"):
            make(name, shape, 2)


@pytest.mark.parametrize(
    ("shape", "name"),
    [((20,), "mlp"), ((30, 30), "mlp"), ((1, 8, 8), "mlp"), ((1, 15, 40), "mlp"), ((1, 16, 16), "cnn"),
     ((3, 32, 32), "cnn")],
)  # fmt: skip
def test_auto_goes_by_the_data(shape, name):
    assert resolve("auto", shape) == name
    assert parameters("auto", shape, 10) == parameters(name, shape, 10)


def test_a_name_resolves_to_itself():
    assert [resolve(name, (20,)) for name in MODELS] == list(MODELS)


def test_the_global_seed_decides_the_weights():
    factory = make("mlp", (20,), 10)
    torch.manual_seed(3)
    first, second = factory(), factory()
    torch.manual_seed(3)
    again = factory()
    for a, b, c in zip(first.parameters(), again.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)


def test_making_a_factory_draws_nothing():
    before = torch.get_rng_state()
    make("cnn", (1, 28, 28), 10)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match="unknown model 'cnn-aple': did you mean cnn-apple"):
        make("cnn-aple", (1, 28, 28), 10)
    with pytest.raises(InputError, match="auto"):
        resolve("transformer", (20,))


@pytest.mark.parametrize("name", ["cnn", "cnn-apple"])
def test_relu_after_the_pool_is_the_papers_network(name):
    ours = make(name, (1, 28, 28), 10)()
    conv1, pool, relu, conv2, _, _, *rest = ours
    theirs = torch.nn.Sequential(conv1, relu, pool, conv2, relu, pool, *rest)
    x, y = torch.randn(9, 1, 28, 28), torch.arange(9)
    losses = [torch.nn.functional.cross_entropy(net(x), y) for net in (ours, theirs)]
    ours_gradient, theirs_gradient = (torch.autograd.grad(loss, list(ours.parameters())) for loss in losses)
    assert losses[0] == losses[1]
    assert all(torch.equal(a, b) for a, b in zip(ours_gradient, theirs_gradient, strict=True))
