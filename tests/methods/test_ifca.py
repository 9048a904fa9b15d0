"""IFCA: rounds by hand, clusters that are found, and FedAvg where there is one cluster."""

from typing import Any

import pytest
import torch
from small import States, batchnorm, flat, linear, mlp, near, own, quadratic, run, same, scores_of, silo, task

from amity.contract import Choosing, InputError, Solver, State
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.methods.ifca import IFCA, lowest

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
ADAM = Solver("adam", 0.01, batch=4)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
ONE = torch.ones(1, 1, dtype=torch.float64)


def uploads(cluster: list[int], params: list[float]) -> State:
    """What silos send whose models are single numbers."""
    count = len(cluster)
    empty = torch.zeros(count, 0, dtype=torch.float64)
    models = {"params": torch.tensor(params, dtype=torch.float64)[:, None], "buffers": empty, "counts": empty.long()}
    return {**models, "cluster": torch.tensor(cluster)}


def test_two_rounds_by_hand() -> None:
    # F_a' = w - 8, F_b' = w - 16, F_c' = w + 8, one step of rate 1/2. The server has the models -1 and 1.
    # Round 1: a and b are nearer to 1, c to -1.  a: 1 + 7/2 = 4.5;  b: 1 + 15/2 = 8.5;  c: -1 - 7/2 = -4.5.
    #   Means: -4.5 of c, 6.5 of a and b.   Round 2: 7.25, 11.25 and -6.25; means -6.25 and 9.25.
    at = [own(name, ONE, torch.tensor([y])) for name, y in (("a", 8), ("b", 16), ("c", -8))]
    method, on, who = IFCA(clusters=2), quadratic(1), torch.arange(3)
    fed = federation_of(at, 2, 1)
    first = {**method.init_server(on, fed), "cluster_params": torch.tensor([[-1.0], [1.0]], dtype=torch.float64)}
    clients = [method.init_client(on, fed, i) for i in range(3)]
    reports = run(
        method, on=on, at=at, rounds=2, epochs=1, solver=FULL._replace(rate=0.5), start=States(first, clients)
    )
    assert reports[0].server["cluster_params"][:, 0].tolist() == pytest.approx([-4.5, 6.5], abs=1e-12)
    assert reports[1].server["cluster_params"][:, 0].tolist() == pytest.approx([-6.25, 9.25], abs=1e-12)
    assert flat(reports[1])[:, 0].tolist() == pytest.approx([9.25, 9.25, -6.25], abs=1e-12)
    assert [int(client["chosen"]) for client in reports[1].clients] == [1, 1, 0]
    assert isinstance(method, Choosing)
    assert [method.holds(client) for client in reports[1].clients] == ["cluster 2", "cluster 2", "cluster 1"]
    # The server alone: a cluster that nobody chose stays as it is, the mean is of equal parts or by sizes.
    after = method.aggregate(first, who[:2], uploads([1, 1], [2.0, 5.0]), 1)
    assert after["cluster_params"][:, 0].tolist() == [-1.0, 3.5]
    weighed = {**first, "sizes": torch.tensor([1, 3, 9])}
    after = IFCA(clusters=2, weighting="samples").aggregate(weighed, who[:2], uploads([1, 1], [2.0, 5.0]), 1)
    assert after["cluster_params"][:, 0].tolist() == pytest.approx([-1.0, 4.25], abs=1e-12)


@pytest.mark.parametrize(("make", "solver"), [(mlp, ADAM), (batchnorm, BATCHES), (linear, BATCHES)])
@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_ifca_1_one_cluster_is_fedavg_to_the_last_bit(make: Any, solver: Solver, weighting: Any) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": solver, **SOME}
    average = run("fedavg", settings={"weighting": weighting}, **setting)
    for init in ("shared", "independent"):
        mine = run(IFCA(clusters=1, weighting=weighting, init=init), **setting)
        for a, b in zip(average, mine, strict=True):
            assert all(
                torch.equal(a.server[key], b.server[f"cluster_{key}"][0]) for key in ("params", "buffers", "counts")
            )
            assert [score.loss for score in scores_of(a)] == [score.loss for score in scores_of(b)]


def test_ifca_2_silos_that_label_alike_find_each_other() -> None:
    """Eight silos of two groups whose labels contradict each other: two clusters are the groups, whatever the lots."""
    at = [silo(f"s{i}", 24, i % 2) for i in range(8)]
    setting: dict[str, Any] = {
        "on": task(linear),
        "at": at,
        "rounds": 8,
        "epochs": 5,
        "solver": FULL._replace(rate=0.3),
    }
    for seed in range(2):
        last = run(IFCA(clusters=2), seed=seed, **setting)[-1]
        chosen = [int(client["chosen"]) for client in last.clients]
        assert chosen in ([0, 1] * 4, [1, 0] * 4), chosen
        one, two = (flat(last)[i] for i in (0, 1))
        assert all(torch.equal(row, (one, two)[i % 2]) for i, row in enumerate(flat(last)))


def test_ifca_3_the_lowest_loss_wins_and_a_tie_goes_to_the_cluster_that_was_dealt() -> None:
    losses = torch.tensor([3.0, 1.0, 1.0, 2.0])
    assert [int(lowest(losses, torch.tensor(dealt))) for dealt in range(4)] == [1, 1, 2, 1]
    fed = federation_of([silo(f"s{i}", 5) for i in range(60)], 1, 1)
    dealt = [int(IFCA().init_client(task(), fed, i)["dealt"]) for i in range(60)]
    assert all(dealt.count(cluster) > 8 for cluster in range(3))  # by lot, so about 20 each
    again = fed._replace(keys=fed.keys.flip(0))
    assert [int(IFCA().init_client(task(), again, i)["dealt"]) for i in range(60)] == dealt[::-1]  # of a silo's own


def test_ifca_4_independent_clusters_begin_apart_and_refuse_given_weights() -> None:
    on = task(mlp)
    fed = federation_of([silo("ash", 7)], 1, 1)
    models = IFCA(init="independent").init_server(on, fed)["cluster_params"]
    assert len({tuple(model.tolist()) for model in models}) == 3
    assert same(IFCA(init="independent").init_server(on, fed), IFCA(init="independent").init_server(on, fed))
    given = task(mlp, start=on.export_state(on.init(stream(0, "given"))))
    with pytest.raises(InputError, match="independent first models need random weights"):
        IFCA(init="independent").init_server(given, fed)


def test_a_silo_that_never_trained_is_evaluated_with_the_cluster_it_was_dealt() -> None:
    method = IFCA()
    (report,) = run(method, rounds=1, participation=0.2)
    for i, client in enumerate(report.clients):
        held = client["dealt"] if i not in report.took_part else client["chosen"]
        assert near(flat(report)[i], report.server["cluster_params"][int(held)])
        assert method.holds(client) == f"cluster {int(held) + 1}"
