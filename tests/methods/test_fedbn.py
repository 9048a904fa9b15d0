"""FedBN: a round by hand, what stays at a silo, and FedAvg where there is no BatchNorm."""

from typing import Any

import pytest
import torch
from small import batchnorm, flat, linear, mlp, near, run, scores_of, silos, task
from torch import nn
from torch.nn import functional as F

from amity.contract import Solver
from amity.federation.plan import federation_of
from amity.methods.fedbn import FedBN

FULL = Solver("sgd", 0.1, batch=1000)  # one batch is all the data
BATCHES = Solver("sgd", 0.1, momentum=0.5, batch=4, decay=0.9)
SOME: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
LOCAL = ("1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked")  # of `batchnorm`


def test_two_rounds_by_hand() -> None:
    """By ordinary modules and autograd: two steps of each silo, a mean of all that is not BatchNorm."""
    at, on, rate = silos(3), task(batchnorm), 0.1
    sizes = [len(one.train.y) for one in at]
    first = on.module(on.initial(federation_of(at, 2, 1))).state_dict()
    modules = []
    for _ in at:
        modules.append(batchnorm().double())
        modules[-1].load_state_dict(first)
    for report in run(FedBN(), on=on, at=at, rounds=2, epochs=2, solver=FULL):
        for one, module in zip(at, modules, strict=True):
            for _ in range(2):
                loss = F.cross_entropy(module.train()(one.train.x), one.train.y)
                gradients = torch.autograd.grad(loss, list(module.parameters()))
                for p, g in zip(module.parameters(), gradients, strict=True):
                    p.data -= rate * g
        states = [module.state_dict() for module in modules]
        for name in set(first) - set(LOCAL):
            mean = sum(n * state[name] for n, state in zip(sizes, states, strict=True)) / sum(sizes)
            for state in states:
                state[name].copy_(mean)
        for client, module in enumerate(modules):
            found = on.export_state(report.personal(client))
            assert found.keys() == module.state_dict().keys()
            assert all(near(found[name].double(), value.double()) for name, value in module.state_dict().items())


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("make", [mlp, linear])
def test_bn_1_without_batchnorm_it_is_fedavg_to_the_last_bit_and_says_so(make: Any, weighting: Any) -> None:
    setting: dict[str, Any] = {"on": task(make), "solver": BATCHES, **SOME}
    average = run("fedavg", settings={"weighting": weighting}, **setting)
    mine = run(FedBN(weighting), **setting)
    for a, b in zip(average, mine, strict=True):
        assert torch.equal(a.server["params"], b.server["params"]) and torch.equal(flat(a), flat(b))
        assert [score.loss for score in scores_of(a)] == [score.loss for score in scores_of(b)]
        assert (a.bytes_up, a.bytes_down, a.bytes_eval) == (b.bytes_up, b.bytes_down, b.bytes_eval)
    said = [[words for words in report.warnings if "has none: this run is FedAvg" in words] for report in mine]
    assert [len(words) for words in said] == [1, 0, 0]  # once, in the first round


def test_bn_2_batchnorm_stays_at_the_silo_and_all_else_is_common() -> None:
    on = task(batchnorm)
    last = run(FedBN(), on=on, solver=BATCHES)[-1]
    assert not any("FedAvg" in words for words in last.warnings)
    assert last.server["params"].numel() == on.size - 8  # four scales, four shifts
    assert last.server["buffers"].numel() == last.server["counts"].numel() == 0
    states = [on.export_state(model) for model in last.models]
    for name in states[0]:
        alike = all(torch.equal(state[name], states[0][name]) for state in states[1:])
        assert alike == (name not in LOCAL) or name == "1.num_batches_tracked"  # silos may take as many steps


def test_bn_3_another_silos_batchnorm_is_never_seen() -> None:
    """Inputs of others that are ten times as large: their statistics change, and mine see my data alone."""
    at = silos()
    large = [at[0], *(one._replace(train=one.train._replace(x=10 * one.train.x)) for one in at[1:])]
    model = task(batchnorm)
    mine, other = (run(FedBN(), on=model, at=x, rounds=1, epochs=1, solver=FULL)[0] for x in (at, large))
    for key in ("params", "buffers", "counts"):  # after one round, from one start: my layer has not met the others
        assert torch.equal(mine.clients[0][key], other.clients[0][key])
        assert key == "counts" or not torch.equal(mine.clients[1][key], other.clients[1][key])


def test_a_model_whose_layers_are_not_in_a_row() -> None:
    """BatchNorm in the middle of a nested module, with frozen scales, is found by its kind and not by its name."""

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm_of_words = nn.Linear(3, 4, bias=False)  # only called so
            self.inner = nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Tanh())
            self.out = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.out(self.inner(self.norm_of_words(x)))
            return scores

    on = task(Nested)
    last = run(FedBN(), on=on, rounds=2, epochs=1, solver=FULL)[-1]
    assert last.server["params"].numel() == on.size and last.clients[0]["buffers"].numel() == 8
