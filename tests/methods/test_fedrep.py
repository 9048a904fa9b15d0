"""FedRep: rounds by hand, and what it is with one of its two parts at rest."""

from typing import Any

import pytest
import torch
from methods.two_layers import product
from small import batchnorm, flat, linear, mlp, near, own, run, same, silos, task

from amity.contract import InputError, Solver
from amity.methods.fedbabu import FedBABU
from amity.methods.fedrep import FedRep

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}


def test_two_rounds_by_hand() -> None:
    # F_a = (phi h - 4)^2 / 2, F_b = (phi h + 4)^2 / 2; phi = h = 1, rate 1/4; a step of the head, then one of the body.
    # Round 1. a: h' = phi (phi h - 4) = -3, h = 1.75; phi' = h (phi h - 4) = 1.75 (-2.25), phi = 1.984375.
    #          b: h' = 5, h = -0.25; phi' = -0.25 (-0.25 + 4) = -0.9375, phi = 1.234375.    Mean 1.609375.
    # Round 2. a: phi h = 1.609375 * 1.75 = 2.81640625; h' = 1.609375 (-1.18359375), h = 2.226211548.
    one = torch.ones(1, 1, dtype=torch.float64)
    at = [own("a", one, torch.tensor([4])), own("b", one, torch.tensor([-4]))]
    solver = FULL._replace(rate=0.25)
    reports = run(FedRep(), on=product(1, 1), at=at, rounds=2, epochs=1, solver=solver)
    first, second = reports
    assert first.server["params"].tolist() == pytest.approx([1.609375], abs=1e-12)
    assert flat(first).tolist() == [pytest.approx([1.609375, 1.75]), pytest.approx([1.609375, -0.25])]
    h, phi = 1.75 + 1.609375 * 1.18359375 / 4, 1.609375
    assert second.clients[0]["params"].item() == pytest.approx(h, abs=1e-12) == pytest.approx(2.226211548)
    phi_a = phi - h * (phi * h - 4) / 4
    phi_b = 2 * second.server["params"].item() - phi_a
    h_b = -0.25 - phi * (phi * -0.25 + 4) / 4
    assert phi_b == pytest.approx(phi - h_b * (phi * h_b + 4) / 4, abs=1e-12)
    # Three epochs of the head, two of the body: the head of a goes 1, 1.75, 2.3125, 2.734375.
    method = FedRep(head_epochs=3, body_epochs=2)
    (report,) = run(method, on=product(1, 1), at=at, rounds=1, epochs=1, solver=solver)
    assert report.clients[0]["params"].item() == pytest.approx(2.734375, abs=1e-12)


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES)])
def test_rep_1_a_head_that_rests_is_fedbabu_to_the_last_bit(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, **SOME}
    mine = run(FedRep(head_epochs=0, body_epochs="same"), **setting)
    other = run(FedBABU(ft_epochs=0), **setting)
    for a, b in zip(mine, other, strict=True):
        assert all(torch.equal(a.server[key], b.server[key]) for key in ("params", "buffers", "counts"))
        assert torch.equal(flat(a), flat(b))


@pytest.mark.parametrize("solver", [ADAM, BATCHES])
def test_rep_2_a_body_that_rests_leaves_heads_that_train_alone(solver: Solver) -> None:
    """Each head then is local training of the last layer of a model whose other layers never move."""
    setting: dict[str, Any] = {"on": task(mlp), "solver": solver, **SOME}
    mine = run(FedRep(body_epochs=0), **setting)
    at = silos()
    other = run(FedRep(body_epochs=0), at=[at[0], *silos(5, seed=9)[1:]], **setting)
    for a, b in zip(mine, other, strict=True):
        assert near(a.server["params"], mine[0].server["params"], 1e-12)
        assert same(a.clients[0], b.clients[0])
    assert not near(mine[0].clients[0]["params"], mine[-1].clients[0]["params"])


def test_rep_3_the_head_is_what_it_is_told_to_be() -> None:
    on = task(mlp)  # 0: 4 x 3 + 4 numbers, 2: 3 x 4 + 3
    assert run(FedRep(), on=on, rounds=1)[0].server["params"].numel() == 16
    assert run(FedRep(head="0"), on=on, rounds=1)[0].server["params"].numel() == 15
    assert run(FedRep(head="2.bias, 0.bias"), on=on, rounds=1)[0].server["params"].numel() == 24
    assert run(FedRep(), on=task(linear), rounds=1)[0].server["params"].numel() == 9  # of one layer: its bias
    named, last = (run(FedRep(head=head), on=on, solver=BATCHES)[-1] for head in ("2", "last"))
    assert same(named.server, last.server) and torch.equal(flat(named), flat(last))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("0,2", "^fedrep needs a head and a body, got a head that is all of the model: set head to some of 0.weight, "),
        (",", "^fedrep needs a head and a body, got a head that is none of it: "),
        ("fc", "^unknown parameter or layer 'fc': "),
    ],
)
def test_a_head_that_cannot_be_is_refused(head: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        run(FedRep(head=head), on=task(mlp))
    assert "\n" not in str(error.value)
