"""FedBABU: a round by hand, a head that never moves, and FedAvg of a model whose head is frozen."""

from typing import Any

import pytest
import torch
from methods.two_layers import product
from small import batchnorm, flat, mlp, near, own, run, same, silos, task
from torch import nn

from amity.contract import Solver
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.methods.fedbabu import FedBABU

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}


def test_two_rounds_by_hand() -> None:
    # F_a = (2 phi - 4)^2 / 2, F_b = (2 phi + 4)^2 / 2 with h = 2, from phi = 1; rate 1/8, one step.
    # Round 1. a: phi' = 2 (2 - 4) = -4, phi = 1.5;  b: phi' = 2 (2 + 4) = 12, phi = -0.5.  Mean 0.5.
    # Evaluated, one step more of both numbers from (0.5, 2): a: r = 1 - 4 = -3: phi = 0.5 + 2 * 3/8 = 1.25,
    #   h = 2 + 0.5 * 3/8 = 2.1875.  b: r = 1 + 4 = 5: phi = 0.5 - 2 * 5/8 = -0.75, h = 2 - 0.5 * 5/8 = 1.6875.
    # Round 2. a: phi = 0.5 + 2 * 3/8 = 1.25;  b: -0.75.  Mean 0.25.
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([4])), own("b", one, torch.tensor([-4]))]
    setting: dict[str, Any] = {"on": product(1, 2), "at": at, "rounds": 2, "epochs": 1}
    setting["solver"] = FULL._replace(rate=0.125)
    first, second = run(FedBABU(), **setting)
    assert first.server["params"].tolist() == pytest.approx([0.5], abs=1e-12)
    assert flat(first).tolist() == [pytest.approx([1.25, 2.1875]), pytest.approx([-0.75, 1.6875])]
    assert second.server["params"].tolist() == pytest.approx([0.25], abs=1e-12)
    for part, wanted in (("head", [0.5, 2.1875]), ("body", [1.25, 2.0])):
        report, _ = run("fedbabu", settings={"ft_part": part}, **setting)
        assert flat(report)[0].tolist() == pytest.approx(wanted, abs=1e-12)


class Frozen(nn.Module):
    """`mlp` with a head that cannot be trained."""

    def __init__(self) -> None:
        super().__init__()
        self.all = mlp()
        self.all[2].requires_grad_(False)  # type: ignore[index]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.all(x)
        return scores


@pytest.mark.parametrize("solver", [ADAM, BATCHES])
def test_babu_1_it_is_fedavg_of_a_model_with_a_frozen_head_to_the_last_bit(solver: Solver) -> None:
    weights = task(mlp).export_state(task(mlp).init(stream(5, "given")))
    frozen = Task(Frozen, (3,), 3, dtype=torch.float64, start={f"all.{name}": w for name, w in weights.items()})
    setting: dict[str, Any] = {"solver": solver, **SOME}
    mine = run(FedBABU(ft_part="body"), on=task(mlp, start=weights), **setting)
    other = run("fedavg-ft", on=frozen, **setting)
    for a, b in zip(mine, other, strict=True):
        assert torch.equal(a.server["params"], b.server["params"])
        assert torch.equal(flat(a)[:, : frozen.size], flat(b))


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES)])
def test_babu_2_the_head_never_moves_and_fine_tuning_is_not_fed_back(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, **SOME}
    first = FedBABU().init_server(task(make), federation_of(silos(), 3, 1))
    plain, tuned, longer = (run(FedBABU(ft_epochs=e), **setting) for e in (0, 1, 3))
    for a, b, c in zip(plain, tuned, longer, strict=True):
        assert all(torch.equal(a.server[key], first[key]) for key in first if key.startswith("head_"))
        assert same(a.server, b.server) and same(a.server, c.server)
        assert not near(flat(a), flat(b)) and not near(flat(b), flat(c))
    assert not near(plain[-1].server["params"], first["params"])


def test_babu_3_fine_tuning_the_whole_model_is_that_of_fedavg() -> None:
    """In the first evaluation: from the same model, fine-tuned on the same batches."""
    setting: dict[str, Any] = {"on": task(batchnorm), "rounds": 1, "solver": BATCHES._replace(rate=0.0)}
    mine = run(FedBABU(ft_lr=0.05, ft_epochs=2), **setting)[0]
    other = run("fedavg-ft", settings={"ft_lr": 0.05, "ft_epochs": 2}, **setting)[0]
    assert torch.equal(flat(mine), flat(other))
