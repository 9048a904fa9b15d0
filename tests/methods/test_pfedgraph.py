"""pFedGraph: the graph by hand and against a solver, a round by hand, and its limits."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from methods.points import facts, holding, point, sent_by, turn, vector
from scipy.optimize import minimize
from small import batchnorm, flat, mlp, near, randn, run, same, silos, task
from torch import Tensor

from amity.contract import Clouded, Solver
from amity.methods.pfedgraph import PFedGraph, nearest_shares, turned

BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)


def updates(method: PFedGraph, rows: Tensor, sizes: list[int]) -> Any:
    """What clients get whose last models are w^0 + rows."""
    fed = facts(len(rows))._replace(sizes=torch.tensor(sizes))
    origin = method.init_server(point(rows.shape[1]), fed)["origin"]
    return sent_by(method, holding(method, origin + rows, fed=fed), torch.arange(len(rows)), 2), origin


def test_the_graph_by_hand() -> None:
    # Updates along x, along x and along y; sizes 1, 1, 2: p = (1/4, 1/4, 1/2). Cosines 1, 1, 0 | 1, 1, 0 | 0, 0, 1.
    # alpha = 2: p + c/4 = (1/2, 1/2, 1/2), whose nearest shares are thirds; the third row is (1/4, 1/4, 3/4) less 1/12.
    # alpha = 1/2: p + c = (5/4, 5/4, 1/2), less 3/4: shares (1/2, 1/2, 0). The third row is (1/4, 1/4, 3/2): its first
    #   two are more than 1 below the largest and get nothing.
    rows = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    sent, origin = updates(PFedGraph(alpha=2.0), rows, [1, 1, 2])
    third = 1 / 3
    assert near(sent.weights, torch.tensor([[third] * 3, [third] * 3, [1 / 6, 1 / 6, 2 / 3]], dtype=torch.float64))
    assert near(sent.each["params"][0] - origin, vector(4 / 3, 2 / 3))
    sent, origin = updates(PFedGraph(alpha=0.5), rows, [1, 1, 2])
    assert sent.weights.tolist() == [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]
    assert near(sent.each["params"][1] - origin, vector(2, 0))


rows_of_numbers = st.lists(st.floats(-3, 3), min_size=1, max_size=7)


@given(rows_of_numbers)
def test_gra_1_shares_are_the_nearest_point_of_the_simplex(numbers: list[float]) -> None:
    """The conditions of the optimum: who has a share is less than its number by one t for all, others are below it."""
    row = vector(*numbers)
    (found,) = nearest_shares(row[None])
    assert (found >= 0).all() and found.sum().item() == pytest.approx(1, abs=1e-12)
    t = (row - found)[found > 0]
    assert near(t, t[0].expand(len(t)), 1e-12) and (row[found == 0] <= t[0] + 1e-12).all()


@pytest.mark.parametrize("alpha", [0.1, 0.8, 5.0])
def test_gra_2_shares_solve_the_quadratic_programme(alpha: float) -> None:
    """Against scipy's SLSQP on the problem as it is printed."""
    for seed in range(4):
        c, p = randn(5, seed=seed).tanh(), randn(5, seed=seed + 50).exp()
        p = p / p.sum()

        def cost(x: Any, c: Tensor = c, p: Tensor = p) -> float:
            y = torch.as_tensor(x)
            return float(alpha * (y - p).square().sum() - (y * c).sum())

        whole = {"type": "eq", "fun": lambda x: x.sum() - 1}
        exact = minimize(cost, p.numpy(), bounds=[(0, None)] * 5, constraints=[whole], tol=1e-12, method="SLSQP").x
        (found,) = nearest_shares((p + c / (2 * alpha))[None])
        assert found.tolist() == pytest.approx(exact.tolist(), abs=1e-5)
        assert cost(found) <= cost(exact) + 1e-9


def test_a_round_by_hand_with_the_pull_by_autograd() -> None:
    """w <- w - eta (grad F - lambda grad cos(w, u)), two steps from u."""
    start, data, rate = vector(1, 2), torch.tensor([[3.0, -1.0]], dtype=torch.float64), 0.1
    down = {"params": start, "buffers": vector(), "counts": vector().long()}
    client, upload = PFedGraph(attraction=0.5).local(point(2), {}, down, turn(data, rate, epochs=2))
    w = start.clone()
    for _ in range(2):
        w.requires_grad_()
        loss = 0.5 * (w - data[0]).square().sum() - 0.5 * torch.nn.functional.cosine_similarity(w, start, dim=0)
        (g,) = torch.autograd.grad(loss, w)
        w = (w - rate * g).detach()
    assert near(upload["params"], w) and torch.equal(client["params"], upload["params"])


def test_gra_3_the_pull_turns_towards_the_mixture_and_never_changes_a_length() -> None:
    centre = randn(6, seed=1)
    for seed in range(2, 6):
        w = randn(6, seed=seed)
        h = turned(0.7, centre)(w)
        assert abs(torch.dot(h, w).item()) < 1e-12 and torch.dot(h, centre).item() < 0  # a step is against h
    for w, c in ((centre, centre), (0 * centre, centre), (centre, 0 * centre)):
        assert turned(0.7, c)(w).abs().max().item() < 1e-12


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES)])
def test_gra_4_alpha_inf_weighs_by_size_and_is_fedavg(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver}
    mine = run(PFedGraph(alpha="inf", attraction=0.0), **setting)
    sizes = torch.tensor([len(one.train.y) for one in silos()], dtype=torch.float64)
    for one, copy in zip(mine, run("fedavg-local", **setting), strict=True):
        assert one.weights is not None
        assert near(one.weights, (sizes / sizes.sum()).expand(5, -1))
        assert near(flat(one), flat(copy), 1e-9)


def test_gra_5_a_tiny_alpha_is_separate_training() -> None:
    """With no update as similar to a silo's own as itself, all weight is its own: to the last bit."""
    setting: dict[str, Any] = {"on": task(batchnorm), "solver": BATCHES, "participation": 0.8}
    mine = run(PFedGraph(alpha=1e-6, attraction=0.0), **setting)
    for one, alone in zip(mine, run("separate", **setting), strict=True):
        assert torch.equal(flat(one), flat(alone))
        assert all(same(a, b) for a, b in zip(one.clients, alone.clients, strict=True))


def test_gra_6_silos_without_data_count_alike() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    sent, _ = updates(PFedGraph(alpha="inf"), rows, [0, 0])
    assert sent.weights.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert isinstance(PFedGraph(), Clouded)
