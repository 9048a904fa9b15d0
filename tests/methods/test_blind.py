"""What a server can say of models when it knows their Gram matrix alone."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amity.learn.vectors import cosines, squared_distances
from amity.methods._blind import others, pairs_of, points


@pytest.mark.parametrize("count", [1, 2, 7])
def test_points_have_the_distances_and_angles_of_the_models(count: int) -> None:
    models = torch.randn(count, 50, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    models[0] = 0
    found = points(models @ models.T)
    assert found.shape == (count, count)
    assert torch.allclose(squared_distances(found), squared_distances(models), atol=1e-9)
    assert torch.allclose(cosines(found), cosines(models), atol=1e-9)


def test_a_matrix_that_no_points_have_is_taken_for_a_near_one() -> None:
    found = points(torch.tensor([[1.0, 1.001], [1.001, 1.0]], dtype=torch.float64))
    assert torch.allclose(found @ found.T, torch.ones(2, 2, dtype=torch.float64), atol=2e-3)


@given(st.sets(st.integers(0, 8), min_size=1), st.sets(st.integers(0, 8)))
def test_every_pair_in_which_something_has_changed_is_asked_for_once(who: set[int], before: set[int]) -> None:
    heard = torch.tensor([client in before for client in range(9)])
    earlier = sorted(before - who)
    assert others(sorted(who), heard) == earlier
    asked = pairs_of(sorted(who), heard)
    assert list(asked) == sorted(who)
    found = [tuple(sorted((one, other))) for one, partners in asked.items() for other in partners]
    wanted = {*combinations(sorted(who), 2), *(tuple(sorted((i, j))) for i in who for j in earlier)}
    assert sorted(found) == sorted(wanted)
    within = [sum(other in who for other in partners) for partners in asked.values()]
    assert max(within) <= len(who) // 2 + 4 or len(who) < 5
