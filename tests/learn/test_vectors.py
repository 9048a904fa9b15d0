"""Flat models and the algebra of many models, against plain loops in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from amity.learn import vectors
from amity.learn.vectors import (
    Layout,
    cosines,
    gram,
    largest,
    length,
    mix,
    mix_models,
    squared_distances,
    weighted_mean,
)


def matrix(rows: int, columns: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def dot(one: Tensor, other: Tensor) -> float:
    return math.fsum(a * b for a, b in zip(one.double().tolist(), other.double().tolist(), strict=True))


def naive(rows: list[Tensor], pair: object) -> Tensor:
    return torch.tensor([[pair(a, b) for b in rows] for a in rows], dtype=torch.float64)  # type: ignore[operator]


def close(one: Tensor, other: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


shapes = given(
    rows=st.integers(1, 6), columns=st.integers(1, 20), seed=st.integers(0, 99), indexed=st.booleans(), some=st.data()
)


@shapes
def test_pairs_equal_plain_loops(rows: int, columns: int, seed: int, indexed: bool, some: st.DataObject) -> None:
    w = matrix(rows, columns, seed)
    index = None
    if indexed:
        index = torch.tensor(some.draw(st.lists(st.integers(0, rows - 1), min_size=1, unique=True)))
    chosen = list(w if index is None else w[index])
    origin = matrix(1, columns, seed + 1)[0]

    close(gram(w, index), naive(chosen, dot))
    close(gram(w, index, origin=origin), naive([row - origin for row in chosen], dot))
    close(squared_distances(w, index), naive(chosen, lambda a, b: dot(a - b, a - b)))
    close(cosines(w, index), naive(chosen, lambda a, b: dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))))
    moved = [row - origin for row in chosen]
    close(
        cosines(w, index, origin=origin),
        naive(moved, lambda a, b: dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))),
        1e-10,
    )
    weights = matrix(3, len(chosen), seed + 2)
    close(
        mix(weights, w, index), torch.stack([sum(x * row for x, row in zip(r, chosen, strict=True)) for r in weights])
    )


@given(rows=st.integers(1, 12), columns=st.integers(0, 9), seed=st.integers(0, 99), some=st.data())
def test_some_rows_are_those_of_all(rows: int, columns: int, seed: int, some: st.DataObject) -> None:
    """What is computed when only these models have changed."""
    w, origin = matrix(rows, columns, seed), matrix(1, columns, seed + 1)[0]
    chosen = torch.tensor(sorted(some.draw(st.sets(st.integers(0, rows - 1), min_size=1))))
    for part, whole in (
        (squared_distances(w, some=chosen), squared_distances(w)),
        (cosines(w, some=chosen), cosines(w)),
        (cosines(w, some=chosen, origin=origin), cosines(w, origin=origin)),
    ):
        close(part, whole[chosen])
        square = part[:, chosen]
        assert torch.equal(square, square.T) and torch.equal(square.diagonal(), whole.diagonal()[chosen])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 9, 33])
def test_pairs_are_symmetric_to_the_last_bit(rows: int) -> None:
    """Only one triangle is multiplied; every strip of rows must be there."""
    w = matrix(rows, 50, dtype=torch.float32)
    close(gram(w), w.double() @ w.double().T)
    for pairs in (gram(w), squared_distances(w), cosines(w)):
        assert torch.equal(pairs, pairs.T)


def test_arguments_stay_what_they_are() -> None:
    """Blocks are changed in place: they must be copies, also of a matrix that is in float64 already."""
    w, origin = matrix(4, 11), matrix(1, 11, 5)[0]
    kept, first = w.clone(), origin.clone()
    for index in (None, torch.tensor([3, 0, 2])):
        gram(w, index, origin=origin, centred=True)
        squared_distances(w, index)
        cosines(w, index, origin=origin)
        mix(torch.ones(2, 4 if index is None else 3), w, index)
    assert torch.equal(w, kept) and torch.equal(origin, first)


def test_mix_into_a_given_matrix() -> None:
    w, weights, out = matrix(4, 11), matrix(2, 4, 1), torch.full((3, 11), 7.0, dtype=torch.float64)
    got = mix(weights, w, out=out[:2])
    assert got.data_ptr() == out.data_ptr() and torch.equal(got, mix(weights, w))
    assert torch.equal(out[2], torch.full((11,), 7.0, dtype=torch.float64))


def test_float32_mixtures_are_rounded_once() -> None:
    """The float64 sum of the stored numbers, to the nearest float32: equal models are mixed to themselves exactly."""
    w, weights = matrix(60, 300, dtype=torch.float32), torch.softmax(matrix(60, 60, 1), 1)
    want = [
        [math.fsum(x * y for x, y in zip(r, c, strict=True)) for c in w.double().T.tolist()] for r in weights.tolist()
    ]
    exact = torch.tensor(want, dtype=torch.float64)
    assert ((mix(weights, w).double() - exact).abs() <= exact.abs() * 2**-24 * (1 + 1e-6) + 1e-14).all()
    assert torch.equal(mix(weights, w[:1].repeat(60, 1)), w[:1].repeat(60, 1))


def test_diagonals_are_exact() -> None:
    w = matrix(5, 7, dtype=torch.float32)
    assert torch.equal(squared_distances(w).diagonal(), torch.zeros(5, dtype=torch.float64))
    assert torch.equal(cosines(w).diagonal(), torch.ones(5, dtype=torch.float64))
    assert cosines(w).abs().max() <= 1 and squared_distances(w).min() >= 0


def test_zero_models_have_cosine_zero() -> None:
    w = torch.stack([torch.zeros(4), torch.ones(4), -torch.ones(4), torch.zeros(4)]).double()
    want = [[1, 0, 0, 0], [0, 1, -1, 0], [0, -1, 1, 0], [0, 0, 0, 1]]
    assert cosines(w).tolist() == want
    assert cosines(w, origin=torch.ones(4).double())[1].tolist() == [0, 1, 0, 0]


def test_close_models_far_from_the_origin_keep_their_distance() -> None:
    """1e-6 apart, 1e4 from the origin: |w|^2 is 22 orders of magnitude above the answer, beyond float64."""
    d, gap = 1000, 1e-6
    far = torch.full((d,), 1e4 / math.sqrt(d), dtype=torch.float64)
    w = torch.stack([far, far, far])
    w[1, 0] += gap
    w[2, 1] -= 2 * gap
    want = torch.tensor([[0, 1, 4], [1, 0, 5], [4, 5, 0]], dtype=torch.float64) * gap**2
    torch.testing.assert_close(squared_distances(w), want, rtol=1e-4, atol=0)


def test_float32_models_are_compared_in_float64() -> None:
    """The distance of the stored numbers, to ten digits, though their squares differ in float32's last bit only."""
    d = 1000
    far = torch.full((d,), 316.0)
    w = torch.stack([far, torch.nextafter(far, far + 1), far])
    w[2, 0] += 1e-3
    ulp = float(w[1, 0].double() - w[0, 0].double())
    step = float(w[2, 0].double() - w[0, 0].double())
    assert 0 < ulp < 1e-4
    first, second = d * ulp**2, step**2
    got = squared_distances(w)
    assert got.dtype == torch.float64
    assert got[0, 1].item() == pytest.approx(first, rel=1e-10)
    assert got[0, 2].item() == pytest.approx(second, rel=1e-10)
    assert got[1, 2].item() == pytest.approx((d - 1) * ulp**2 + (step - ulp) ** 2, rel=1e-10)


@pytest.mark.parametrize("numbers", [1, 7, 16, 40])
@pytest.mark.parametrize("index", [None, torch.tensor([3, 0, 2])])
def test_streaming_over_blocks_equals_one_block(
    monkeypatch: pytest.MonkeyPatch, numbers: int, index: Tensor | None
) -> None:
    w, origin = matrix(4, 11), matrix(1, 11, 5)[0]
    weights = matrix(2, 4 if index is None else 3, 6)

    def all_of_them() -> list[Tensor]:
        return [
            gram(w, index),
            gram(w, index, origin=origin),
            squared_distances(w, index),
            cosines(w, index, origin=origin),
            mix(weights, w, index),
        ]

    whole = all_of_them()
    monkeypatch.setattr(vectors, "_BLOCK_NUMBERS", numbers)
    for one, other in zip(all_of_them(), whole, strict=True):
        close(one, other)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    usual = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(usual)


def test_results_do_not_depend_on_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, threads: Callable[[int], None]
) -> None:
    monkeypatch.setattr(vectors, "_BLOCK_NUMBERS", 1 << 10)
    w = matrix(20, 5000, dtype=torch.float32)
    assert w.numel() > vectors._PARTS * vectors._BLOCK_NUMBERS  # large enough to be divided
    index, weights = torch.arange(1, 20, 2), torch.softmax(matrix(10, 10), 1)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append([squared_distances(w), cosines(w, index), cosines(w, some=index), mix(weights, w, index)])
        assert torch.get_num_threads() == count
    for others in results[1:]:
        assert all(map(torch.equal, results[0], others))


def test_one_row_shown_many_times() -> None:
    """A stride of 0: the form in which a shared first model is stored."""
    row = matrix(1, 6)
    shown = row.expand(4, -1)
    assert shown.stride(0) == 0
    dense = shown.contiguous()
    for index in (None, torch.tensor([2, 0])):
        assert torch.equal(squared_distances(shown, index), torch.zeros_like(gram(dense, index)))
        close(cosines(shown, index), torch.ones_like(gram(dense, index)))
        close(gram(shown, index), gram(dense, index))
        count = 4 if index is None else 2
        weights = torch.full((3, count), 1 / count, dtype=torch.float64)
        close(mix(weights, shown, index), row.expand(3, -1))
    assert torch.equal(shown, row.expand(4, -1))


def test_mix_keeps_the_type_and_sums_in_float64() -> None:
    """In float32 the small terms would be lost beside the large one."""
    w = torch.tensor([[1e8], [1.0], [-1e8]])
    assert mix(torch.ones(1, 3), w).item() == 1.0 and mix(torch.ones(1, 3), w).dtype == torch.float32


def test_mix_of_no_columns() -> None:
    """A model without buffers."""
    assert mix(torch.ones(2, 3), torch.zeros(3, 0)).shape == (2, 0)
    assert gram(torch.zeros(3, 0)).tolist() == torch.zeros(3, 3).tolist()


def test_counters_take_the_largest_of_those_with_a_weight() -> None:
    counts = torch.tensor([[5, 1], [9, 2], [3, 8]])
    weights = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [-0.1, 1.1, 0.0]])
    assert largest(weights, counts).tolist() == [[5, 8], [9, 2], [9, 2]]
    assert largest(torch.tensor([[1.0, 1.0]]), counts, torch.tensor([2, 0])).tolist() == [[5, 8]]
    assert largest(weights, torch.zeros(3, 0, dtype=torch.int64)).shape == (3, 0)


def test_mixed_models_follow_each_kind_by_its_rule() -> None:
    models = {
        "params": torch.tensor([[0.0, 4.0], [8.0, 0.0]]),
        "buffers": torch.tensor([[1.0], [3.0]]),
        "counts": torch.tensor([[7], [2]]),
    }
    out = mix_models(torch.tensor([[0.25, 0.75], [0.0, 1.0]]), models)
    assert out["params"].tolist() == [[6, 1], [8, 0]]
    assert out["buffers"].tolist() == [[2.5], [3]]
    assert out["counts"].tolist() == [[7], [2]]
    mean = weighted_mean(models, torch.tensor([1, 3]))  # weights need not sum to 1
    assert {key: value.tolist() for key, value in mean.items()} == {"params": [6, 1], "buffers": [2.5], "counts": [7]}


@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=6),
    st.lists(st.integers(1, 50), min_size=6, max_size=6),
)
def test_weighted_mean_lies_between_its_models(values: list[float], weights: list[int]) -> None:
    models = {
        "params": torch.tensor(values)[:, None],
        "buffers": torch.zeros(len(values), 0),
        "counts": torch.zeros(len(values), 0, dtype=torch.int64),
    }
    mean = weighted_mean(models, torch.tensor(weights[: len(values)]))["params"].item()
    assert min(values) - 1e-4 <= mean <= max(values) + 1e-4


class Net(nn.Module):
    """Every kind of tensor: 4-d, 2-d, 1-d and 0-d parameters, float buffers, an integer counter."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, (3, 2))
        self.norm = nn.BatchNorm2d(3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.last = nn.Linear(3, 4)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def test_flatten_and_back() -> None:
    module = Net()
    for number, buffer in enumerate(module.buffers()):
        buffer.fill_(number + 2)
    layout = Layout.of(module)
    model = layout.flatten(tensors_of(module), torch.float32)
    assert len(model["params"]) == length(layout.params) == 36 + 3 + 3 + 3 + 1 + 12 + 4
    assert len(model["buffers"]) == 6 and model["counts"].tolist() == [4]
    back = layout.tensors(model)
    assert set(back) == set(tensors_of(module)) - {"frozen"}
    for name, value in back.items():
        assert torch.equal(value, tensors_of(module)[name].detach()) and value.is_contiguous()


def test_slots_do_not_overlap_and_fill_the_vector() -> None:
    layout = Layout.of(Net())
    for slots in layout:
        flat = torch.zeros(length(slots))
        for slot in slots:
            slot.view(flat).add_(1)
        assert torch.equal(flat, torch.ones(length(slots)))


def test_convolutions_lie_channels_last() -> None:
    """Inside the vector only: (out, height, width, in)."""
    layout = Layout.of(Net())
    slot = next(s for s in layout.params if s.name == "conv.weight")
    view = slot.view(torch.arange(length(layout.params)))
    assert view.shape == (3, 2, 3, 2)
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert (view[0, 1, 0, 0] - view[0, 0, 0, 0]).item() == 1  # the next channel is the next number


def test_empty_layout() -> None:
    layout = Layout.of(nn.ReLU())
    model = layout.flatten({}, torch.float32)
    assert all(value.numel() == 0 for value in model.values()) and layout.tensors(model) == {}


@pytest.mark.parametrize("some", [None, torch.tensor([0, 2])])
def test_squares_that_overflow_leave_numbers(some: Tensor | None) -> None:
    """A model that has run away is like nobody and infinitely far from everybody; the others are as they were."""
    rows = matrix(4, 5)
    rows[2] = 1e200
    angles, far = cosines(rows, some=some), squared_distances(rows, some=some)
    places = [0, 1, 2, 3] if some is None else some.tolist()
    for at, one in enumerate(places):
        for other in range(4):
            if one == other:
                assert angles[at, other] == 1 and far[at, other] == 0
            elif 2 in (one, other):
                assert angles[at, other] == 0 and far[at, other] == math.inf
    assert not angles.isnan().any() and not far.isnan().any()
    without = torch.tensor([0, 1, 3])
    if some is None:
        close(angles[without][:, without], cosines(rows, without))
