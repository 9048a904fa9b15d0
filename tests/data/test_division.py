"""The test part of data that bring none: a share of every class."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amity.contract import InputError
from amity.data.division import Division


@given(y=st.lists(st.integers(0, 3), min_size=2, max_size=60), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_what_is_held_out_is_a_share_of_every_class(y: list[int], fraction: float, seed: int) -> None:
    marks = torch.tensor(y)
    held_out = Division(seed, fraction).held_out(marks, "a")
    count = min(max(1, round(fraction * len(y))), len(y) - 1)
    assert int(held_out.sum()) == count
    for label in set(y):
        share = count * y.count(label) / len(y)
        assert abs(int((marks[held_out] == label).sum()) - share) < 1 + 1e-9


@pytest.mark.parametrize("fraction", [0, 1, -0.2, float("nan")])
def test_a_share_is_a_share(fraction: float) -> None:
    with pytest.raises(InputError, match="test fraction must be > 0 and < 1"):
        Division(0, fraction).held_out(torch.tensor([0, 1]), "a")
