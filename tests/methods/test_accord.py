"""Accord: rounds by hand, its limits, and what one silo can do to the others."""

from typing import Any

import pytest
import torch
from small import batchnorm, flat, mlp, own, quadratic, randn, run, same, silos, task

from amity.contract import Solver, Split
from amity.methods.accord import Accord, limited_mean
from amity.methods.ditto import Ditto

FULL = Solver("sgd", 0.5, batch=1000)  # one batch is all the data
ADAM = Solver("adam", 0.01, batch=4)
PLAIN: dict[str, Any] = {"momentum": "none", "limit": "none"}


def test_three_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w - 16; eta = 1/2, one step, lambda = 1, everything from 0, in one dimension: the cosine of
    # two steps is 1 or -1, so b is 0 in the first round and 0.9 while the path is straight. Nobody is limited here.
    # Round 1: d_a = 4, d_b = 8, d = 6;               m = 6;           w = 6.            v_a = 4,   v_b = 8.
    # Round 2: d_a = 1, d_b = 5, d = 3;   b = 0.9,    m = 8.4;         w = 9 + 7.56 = 16.56.
    #   v_a: g = (4 - 8) + (4 - 6) = -6, v = 7;   v_b: g = (8 - 16) + (8 - 6) = -6, v = 11.
    # Round 3: d_a = -4.28, d_b = -0.28, d = -2.28;   b = 0, for the path has turned;   m = -2.28;  w = 14.28.
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([8])), own("b", one, torch.tensor([16]))]
    method = Accord(attraction=1.0, limit="none", start="own")
    reports = run(method, on=quadratic(1), at=at, rounds=3, epochs=1, solver=FULL)
    common = [report.progress.server["params"].item() for report in reports]
    assert common == pytest.approx([6, 16.56, 14.28], abs=1e-10)
    assert flat(reports[0])[:, 0].tolist() == pytest.approx([4, 8], abs=1e-10)
    assert flat(reports[1])[:, 0].tolist() == pytest.approx([7, 11], abs=1e-10)


def test_a_path_goes_back_where_held_out_examples_get_worse_by_hand() -> None:
    # The same two silos, whose held-out examples want w = 6.5. Round 1 judges w^0 and is as above, w = 6. Round 2
    # judges w^1 = 6, the better one, and is as above, w = 16.56. Round 3: w^2 is worse, so w = 6 again, m = 0 and
    # b_max = 0.45.
    # Round 4 judges w^3 = 6, as good as the best, and makes a first step: d = 3, w = 9. Round 5: 9 is worse than 6.
    one = torch.ones(1, 1, dtype=torch.float64)
    held_out = Split(2 * one, torch.tensor([13]))
    at = [
        own("a", one, torch.tensor([8]))._replace(val=held_out),
        own("b", one, torch.tensor([16]))._replace(val=held_out),
    ]
    method = Accord(attraction=1.0, limit="none", start="own")
    reports = run(method, on=quadratic(1), at=at, rounds=5, epochs=1, solver=FULL)
    servers = [report.progress.server for report in reports]
    assert [server["params"].item() for server in servers] == pytest.approx([6, 16.56, 6, 9, 6], abs=1e-10)
    assert [server["most"].item() for server in servers] == pytest.approx([0.9, 0.9, 0.45, 0.45, 0.225])
    last = method.last_download(servers[-1], torch.arange(2), 6, None)  # type: ignore[arg-type]
    assert last.shared["params"].item() == pytest.approx(6)


def test_momentum_that_is_given_by_hand() -> None:
    # As above with b = 1/2 throughout. Round 1: m = 6, w = 6 + 3 = 9. Round 2: d_a = -0.5, d_b = 3.5, d = 1.5, m = 4.5,
    # w = 9 + 1.5 + 2.25 = 12.75.
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([8])), own("b", one, torch.tensor([16]))]
    reports = run(Accord(momentum=0.5, limit="none"), on=quadratic(1), at=at, rounds=2, epochs=1, solver=FULL)
    assert [report.progress.server["params"].item() for report in reports] == pytest.approx([9, 12.75], abs=1e-10)


def test_no_step_is_longer_than_so_many_medians() -> None:
    # Steps of length 1, 2 and 10 along the axes, from (1, 1, 1): the last is cut to 2. Sizes 1, 1, 2.
    centre = torch.ones(3, dtype=torch.float64)
    models = centre + torch.diag(torch.tensor([1.0, 2.0, 10.0], dtype=torch.float64))
    found = limited_mean(centre, models, torch.tensor([1, 1, 2]))
    torch.testing.assert_close(found, torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64))
    assert not limited_mean(centre, centre.expand(3, -1), torch.tensor([1, 1, 2])).any()
    three = limited_mean(centre, models, torch.tensor([1, 1, 2]), 3.0)  # three times 2: the last is cut to 6
    torch.testing.assert_close(three, torch.tensor([0.25, 0.5, 3.0], dtype=torch.float64))
    none = limited_mean(centre, models, torch.tensor([0, 0, 0]))  # nobody has data: all count alike
    torch.testing.assert_close(none, torch.tensor([1 / 3, 2 / 3, 2 / 3], dtype=torch.float64))


def test_a_huge_update_carries_nobody_away() -> None:
    centre, honest = randn(50), randn(9, 50, seed=1)
    wild = torch.cat([centre + 0.1 * honest, (centre + 1e30)[None]])
    steps = (0.1 * honest).norm(dim=1)
    moved = limited_mean(centre, wild, torch.ones(10))
    without = 0.1 * honest.mean(0) * 0.9
    assert (moved - without).norm() <= steps.max() * 0.3


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, ADAM._replace(optimizer="sgd"))])
def test_without_momentum_and_limit_the_common_model_is_fedavgs_to_the_last_bit(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, "participation": 0.8, "drop": 0.3}
    average = run("fedavg", **setting)
    found = run(Accord(**PLAIN, start="common"), **setting)
    for a, b in zip(average, found, strict=True):
        assert all(torch.equal(a.progress.server[key], b.progress.server[key]) for key in ("params", "buffers"))
        assert all(same(x, y) for x, y in zip(_models(a), _models(b), strict=True))


def test_without_momentum_and_limit_the_personal_model_is_dittos_to_the_last_bit() -> None:
    setting: dict[str, Any] = {"on": task(mlp), "solver": ADAM, "participation": 0.8}
    ditto = run(Ditto(attraction=0.7, weighting="samples"), **setting)
    found = run(Accord(**PLAIN, attraction=0.7, start="own"), **setting)
    assert all(
        same(x, y) for a, b in zip(ditto, found, strict=True) for x, y in zip(_models(a), _models(b), strict=True)
    )


def test_a_silo_uses_its_own_model_where_its_held_out_examples_are_clearly_likelier_under_it() -> None:
    at = [one._replace(val=Split(one.test.x.repeat(9, 1), one.test.y.repeat(9))) for one in silos()]
    setting: dict[str, Any] = {"on": task(mlp), "solver": ADAM, "at": at, "rounds": 3}
    better, personal, common = (run(Accord(start=start), **setting)[-1] for start in ("better", "own", "common"))
    chosen = []
    for client, one in enumerate(at):
        assert one.val is not None
        losses = [task(mlp).evaluate(seen.personal(client), one.val).loss for seen in (personal, common)]
        chosen.append(losses[0] + 1 < losses[1])
        assert same(better.personal(client), (personal if chosen[-1] else common).personal(client))
    assert len(set(chosen)) == 2  # or the test shows half of it


def _models(report: Any) -> list[Any]:
    return [report.personal(client) for client in range(len(silos()))]
