"""MR-MTL: rounds by hand, its optimum in closed form, its limits, and the methods that it is not."""

from typing import Any

import pytest
import torch
from small import batchnorm, flat, mlp, near, own, quadratic, randn, run, same, scores_of, silos, task
from torch import Tensor

from amity.contract import InputError, Silo, Solver
from amity.methods.mr_mtl import MRMTL

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
ONE = torch.ones(1, 1, dtype=torch.float64)
PAIR = [own("a", ONE, torch.tensor([8])), own("b", ONE, torch.tensor([16]))]  # F_a' = w - 8, F_b' = w - 16


def test_two_rounds_by_hand() -> None:
    # lambda = 1/2, rate 1/2, two steps, everything from 0.
    # Round 1, centre 0. a: g = -8, w = 4; g = -4 + 4/2 = -2, w = 5.  b is twice that: 10.  Mean 7.5.
    # Round 2, centre 7.5. a: g = -3 + (5 - 7.5)/2 = -4.25, w = 7.125; g = -0.875 - 0.1875, w = 7.65625.
    #   b: g = -6 + (10 - 7.5)/2 = -4.75, w = 12.375; g = -3.625 + 2.4375, w = 12.96875.  Mean 10.3125.
    setting: dict[str, Any] = {"on": quadratic(1), "at": PAIR, "rounds": 2, "epochs": 2}
    reports = run(MRMTL(attraction=0.5), solver=FULL._replace(rate=0.5), **setting)
    found = [[*report.server["params"].tolist(), *flat(report)[:, 0].tolist()] for report in reports]
    assert found[0] == pytest.approx([7.5, 5, 10], abs=1e-10)
    assert found[1] == pytest.approx([10.3125, 7.65625, 12.96875], abs=1e-10)
    assert scores_of(reports[0])[0].loss == pytest.approx((5 - 8) ** 2 / 2, abs=1e-10)


def test_the_mean_by_sizes() -> None:
    at = [PAIR[0], own("b", ONE.expand(3, 1), torch.tensor([16, 16, 16]))]
    setting: dict[str, Any] = {
        "on": quadratic(1),
        "at": at,
        "rounds": 1,
        "epochs": 1,
        "solver": FULL._replace(rate=0.5),
    }
    for weighting, mean in (("uniform", 6.0), ("samples", 7.0)):  # of 4 and 8
        (report,) = run("mr-mtl", settings={"weighting": weighting}, **setting)
        assert report.server["params"].item() == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES)])
def test_mrm_1_attraction_0_is_separate_to_the_last_bit(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, "rounds": 4, **SOME}
    alone, mine, pulled = (run(m, **setting) for m in ("separate", MRMTL(attraction=0.0), MRMTL(attraction=0.1)))
    for one, two in zip(alone, mine, strict=True):
        assert all(same(a, b) for a, b in zip(one.clients, two.clients, strict=True))
        assert [a.loss for a in scores_of(one)] == [b.loss for b in scores_of(two)]
    assert not near(flat(mine[-1]), flat(pulled[-1]))


def design(seed: int) -> Tensor:
    """Twenty examples whose H = X'X/20 has the eigenvalues 1, 1.21 and 1.44.  # [20, 3]"""
    left, right = torch.linalg.qr(randn(20, 3, seed=seed)).Q, torch.linalg.qr(randn(3, 3, seed=seed + 50)).Q
    out: Tensor = 20**0.5 * left @ torch.diag(torch.tensor([1.0, 1.1, 1.2], dtype=torch.float64)) @ right
    return out


def problem() -> tuple[list[Silo], list[Tensor], list[Tensor]]:
    """Three quadratics F_i = w'H w/2 - b'w + const."""
    at = [own(f"s{i}", design(i), 3 * torch.arange(20) % (i + 5)) for i in range(3)]
    hessians = [one.train.x.T @ one.train.x / 20 for one in at]
    return at, hessians, [one.train.x.T @ one.train.y.double() / 20 for one in at]


@pytest.mark.parametrize("attraction", [0.1, 1.0])
def test_mrm_2_it_reaches_the_optimum_of_its_objective(attraction: float) -> None:
    """All gradients of sum F_i(w_i) + lambda/2 |w_i - mean|^2 are 0: one linear system in all models together."""
    at, hessians, slopes = problem()
    eye = torch.eye(3, dtype=torch.float64)
    system = torch.block_diag(*[h + attraction * eye for h in hessians])
    system -= attraction / 3 * torch.kron(torch.ones(3, 3, dtype=torch.float64), eye)
    exact = torch.linalg.solve(system, torch.cat(slopes)).view(3, 3)
    solver = FULL._replace(rate=0.4)
    last = run(MRMTL(attraction=attraction), on=quadratic(3), at=at, rounds=60, epochs=1, solver=solver)[-1]
    assert near(flat(last), exact, 1e-9) and near(last.server["params"], exact.mean(0), 1e-9)


def test_mrm_3_the_stronger_the_pull_the_closer_the_models() -> None:
    setting: dict[str, Any] = {"on": task(mlp), "rounds": 6, "solver": FULL}
    apart = [flat(run(MRMTL(attraction=x), **setting)[-1]).std(0).norm().item() for x in (0.0, 0.3, 3.0, 10.0)]
    assert apart == sorted(apart, reverse=True) and apart[-1] < apart[0] / 3


def test_mrm_4_none_of_its_neighbours_is_the_same() -> None:
    """Neither Ditto, nor psgd-mtl (Ditto's objective), nor psgd-mixture, though the last has the same objective.

    One step in each round. psgd-mixture's centre comes nearest where its own step is as long as it can usefully be,
    c eta lambda = 1: then it is the mean of the personal models before their step, and so a round behind.
    """
    at = [PAIR[0], own("b", 2 * ONE, torch.tensor([16]))]  # F_b' = 4 w - 32: with equal curvatures Ditto would be level
    setting: dict[str, Any] = {"on": quadratic(1), "at": at, "epochs": 1, "solver": FULL._replace(rate=0.125)}
    mine = run(MRMTL(attraction=0.5), rounds=4, **setting)
    for name in ("ditto", "psgd-mtl", "psgd-mixture"):
        other = run(name, settings={"attraction": 0.5}, rounds=4, **setting)
        assert not near(flat(mine[-1]), flat(other[-1]), 1e-3), name
    behind = run("psgd-mixture", settings={"attraction": 0.5, "shared_lr_scale": 16.0}, rounds=4, **setting)
    for before, report in zip(behind, behind[1:], strict=False):
        assert near(report.server["params"], flat(before).mean(0))
    for report in mine:
        assert near(report.server["params"], flat(report).mean(0))


def test_sgd_needs_rate_lambda_below_2() -> None:
    MRMTL().accept(MRMTL.solver)
    MRMTL(attraction=19.99).accept(FULL)
    MRMTL(attraction=1e6).accept(ADAM)  # its steps do not grow with the gradient
    with pytest.raises(InputError, match=r"^mr-mtl needs lr x attraction < 2 with sgd, got 0.1 x 20: .*lr below 0.1$"):
        MRMTL(attraction=20.0).accept(FULL)


def test_buffers_never_leave_the_silo() -> None:
    (report,) = run(MRMTL(), on=task(batchnorm), rounds=1)
    assert report.server.keys() == {"params", "sizes"}
    assert report.bytes_up == 5 * 8 * task(batchnorm).size == report.bytes_down
    assert len({tuple(client["buffers"].tolist()) for client in report.clients}) == len(silos())
