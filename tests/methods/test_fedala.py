"""FedALA: rounds by hand, weights that stay within 0 and 1, and FedAvg where none are learnt."""

from typing import Any

import pytest
import torch
from small import (
    batchnorm,
    flat,
    linear,
    mlp,
    near,
    own,
    quadratic,
    run,
    same,
    scores_of,
    silos,
    task,
    turn_of,
)

from amity.contract import Solver
from amity.federation.plan import federation_of
from amity.methods.fedala import LOSSES, PASSES, FedALA, at_rest, drawn

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
ONE = torch.ones(1, 1, dtype=torch.float64)


def test_three_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w, from 0; rate 1/2, one step; eta = 1/128, all data.
    # Round 1: the models are equal and nothing is learnt. a: w = 4;  b: w = 0.  Mean 2, both differ from it by 2.
    # Round 2. a: v = 4 - 2 W and F' = v - 8, so W <- W + eta 2 (v - 8) = W - (4 + 2 W) / 64, eleven times at least from
    #   W = 1.  b: v = 2 W and F' = v, so W <- W - eta 2 * 2 W = (1 - 1/32) W.
    # Then one step from v. Round 3: one pass more.
    at = [own("a", ONE, torch.tensor([8])), own("b", ONE, torch.tensor([0]))]
    method = FedALA(eta=1 / 128, share=1.0)
    reports = run(method, on=quadratic(1), at=at, rounds=3, epochs=1, solver=FULL._replace(rate=0.5))
    assert flat(reports[0])[:, 0].tolist() == [4, 0] and reports[0].server["params"].item() == 2
    assert [bool(client["converged"]) for client in reports[0].clients] == [False, False]

    passes_a, passes_b = passes(4.0, 2.0, 8.0, 1.0), passes(0.0, 2.0, 0.0, 1.0)
    weight_a, weight_b = passes_a[-1], passes_b[-1]
    assert weight_b == pytest.approx((31 / 32) ** len(passes_b), abs=1e-12) and len(passes_b) > LOSSES + 1
    w_a, w_b = (4 - 2 * weight_a) / 2 + 4, weight_b
    assert flat(reports[1])[:, 0].tolist() == pytest.approx([w_a, w_b], abs=1e-12)
    found = [client["weights"].item() for client in reports[1].clients]
    assert found == pytest.approx([weight_a, weight_b], abs=1e-12)
    assert all(bool(client["converged"]) for client in reports[1].clients)

    mean = (w_a + w_b) / 2
    for place, (w, y, weight) in enumerate([(w_a, 8.0, weight_a), (w_b, 0.0, weight_b)]):
        v = w + (mean - w) * weight
        once = min(1.0, max(0.0, weight - (mean - w) * (v - y) / 128))
        v = w + (mean - w) * once
        assert reports[2].clients[place]["weights"].item() == pytest.approx(once, abs=1e-12)
        assert flat(reports[2])[place].item() == pytest.approx(v - (v - y) / 2, abs=1e-12)


def passes(w: float, mean: float, y: float, weight: float) -> list[float]:
    """The weight after each pass until the losses rest, by the equations; the loss is that before the step."""
    out: list[float] = []
    losses: list[float] = []
    while len(losses) < PASSES:
        v = w + (mean - w) * weight
        losses.append((v - y) ** 2 / 2)
        weight = min(1.0, max(0.0, weight - (mean - w) * (v - y) / 128))
        out.append(weight)
        last = losses[-10:]
        spread = (sum((x - sum(last) / 10) ** 2 for x in last) / 10) ** 0.5
        if len(losses) > 10 and spread < 0.1:
            break
    return out


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES)])
def test_ala_1_without_layers_it_is_fedavg_local_to_the_last_bit(make: Any, solver: Solver) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, **SOME}
    average = run("fedavg-local", **setting)
    for method in (FedALA(layers=0), FedALA(eta=0.0)):  # weights that stay 1 are the global model up to rounding
        mine = run(method, **setting)
        for a, b in zip(average, mine, strict=True):
            if method.layers == 0:
                assert same(a.server, b.server) and torch.equal(flat(a), flat(b))
                assert [score.loss for score in scores_of(a)] == [score.loss for score in scores_of(b)]
            assert near(flat(a), flat(b), 1e-6 if solver is ADAM else 1e-9)


def test_ala_2_only_the_last_layers_have_weights_and_they_stay_within_0_and_1() -> None:
    on = task(mlp)  # 4 x 3 + 4 numbers, then 3 x 4 + 3
    for layers, count in ((0, 0), (1, 15), (2, 31), (9, 31)):
        reports = run(FedALA(layers=layers, eta=10.0), on=on, rounds=2, epochs=1, solver=FULL)
        for client in reports[-1].clients:
            weights = client["weights"]
            assert weights.numel() == count and ((weights >= 0) & (weights <= 1)).all()
        if count:
            assert not near(reports[-1].clients[0]["weights"], torch.ones(count, dtype=torch.float64), 1e-3)
    assert run(FedALA(), on=task(linear), rounds=1)[0].clients[0]["weights"].numel() == 12  # of one layer: all of it


def test_ala_3_layers_below_take_the_global_model() -> None:
    """Without local training, a silo's lower layer is the mean and its last one lies between its own and the mean."""
    on, at = task(mlp), silos()
    fed = federation_of(at, 3, 1)
    method = FedALA(eta=5.0)
    client = method.init_client(on, fed, 0)
    down = {**on.initial(fed), "params": on.initial(fed)["params"] + 1}
    turn = turn_of(fed, at, 0, FULL, round=2, epochs=0)
    after, upload = method.local(on, client, down, turn)
    assert torch.equal(upload["params"][:16], down["params"][:16])
    between = (upload["params"] - client["params"])[16:]
    assert near(between, after["weights"]) and (after["weights"] < 1).any()


def test_ala_4_losses_rest_when_the_last_ten_hardly_differ() -> None:
    assert not at_rest([1.0] * LOSSES) and at_rest([1.0] * (LOSSES + 1))
    assert at_rest([9.0] + [1.0] * LOSSES) and not at_rest([1.0] * LOSSES + [2.0])  # deviation 0 and 0.3
    assert not at_rest([float("nan")] * 20)


def test_ala_5_the_sample_is_a_share_of_the_data_and_new_in_every_round() -> None:
    at = silos()
    fed = federation_of(at, 3, 1)
    one, two = (drawn(turn_of(fed, at, 1, FULL, round=r), 0.8).train for r in (1, 2))
    assert len(one.y) == len(two.y) == 12 and not torch.equal(one.x, two.x)  # of 15
    rows = {tuple(x) for x in at[1].train.x.tolist()}
    assert {tuple(x) for x in one.x.tolist()} < rows
    assert (
        len(drawn(turn_of(fed, at, 1, FULL), 0.01).train.y) == 1
        and len(drawn(turn_of(fed, at, 1, FULL), 1.0).train.y) == 15
    )
