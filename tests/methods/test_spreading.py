"""--min-mix: no silo makes up more than one part in N of what others are sent."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import linear, opened, plan_of, randn, silos, task

import amity
from amity.contract import MODEL, InputError
from amity.data import Silos
from amity.federation.plan import federation_of
from amity.federation.server import ServerSide
from amity.methods import METHODS, build
from amity.methods._spreading import capped, spread
from amity.prepare import roster_of
from amity.resolve import resolve


def test_by_hand() -> None:
    """Others have 0.72, 0.06 and 0.02 of 0.8; at most half of it may be from one: 0.4, and 0.4 for 0.06 and 0.02."""
    weights = torch.tensor([[0.2, 0.72, 0.06, 0.02]], dtype=torch.float64)
    found = spread(weights, torch.tensor([0]), torch.ones(4, dtype=torch.bool), 2)
    assert found[0].tolist() == pytest.approx([0.2, 0.4, 0.3, 0.1])


def test_nothing_is_sent_where_there_are_too_few() -> None:
    weights = torch.tensor([[0.2, 0.8, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    heard = torch.tensor([True, True, False])
    assert spread(weights, torch.tensor([0, 1]), heard, 2).tolist() == [[1, 0, 0], [0, 1, 0]]
    negative = torch.tensor([[0.9, -0.2, 0.3]], dtype=torch.float64)  # signs could cancel what they are to hide
    assert spread(negative, torch.tensor([0]), torch.ones(3, dtype=torch.bool), 2).tolist() == [[1, 0, 0]]


@given(st.lists(st.sampled_from([0.0, 1e-12, 1e-3, 0.1, 1.0, 7.0]), min_size=3, max_size=9), st.integers(2, 9))
def test_shares(raw: list[float], least: int) -> None:
    """They stay shares, none is too large, none of those below falls, and what is fine already stays as it is."""
    total = sum(raw)
    if not total or least > len(raw):
        return
    before = torch.tensor(raw, dtype=torch.float64) / total
    after = capped(before, 1 / least)
    assert after.sum().item() == pytest.approx(1) and (after >= 0).all() and after.max() <= 1 / least + 1e-9
    assert (after[before <= 1 / least] >= before[before <= 1 / least] - 1e-9).all()
    if before.max() <= 1 / least:
        assert torch.equal(before, after)
    assert 1 / after.square().sum() >= least - 1e-6  # as many models at once are left to whoever takes its own out


MIXED = ["fedamp", "heurfedamp", "pfedatt", "fedacs", "pfedgraph", "twin"]


@pytest.mark.parametrize("method", MIXED)
def test_downloads_are_mixed_as_asked(method: str) -> None:
    """Every row of weights keeps the rule, and the models that are sent are the mixtures by these weights."""
    at = silos(5)
    one, fed = build(method, {}), federation_of(at, 3, 1, least_mix=3)
    on = task(linear)
    server = one.init_server(on, fed)
    models = {**{key: server[key] for key in MODEL}, "params": randn(5, server["params"].shape[1], seed=3)}
    server = one.aggregate(server, torch.arange(5), models, 1)
    down = one.download(server, torch.arange(5), 2, lambda role, key: torch.Generator())
    assert down.weights is not None
    for client, row in enumerate(down.weights):
        others = torch.cat([row[:client], row[client + 1 :]])
        assert others.max() <= others.sum() / 3 + 1e-9
    sent = torch.stack([down.to(client)["params"] for client in range(5)])
    assert torch.allclose(sent, down.weights @ models["params"], atol=1e-10)


def test_a_round_with_too_few_uploads_changes_nothing() -> None:
    """An average of two shows either of them to the other."""
    plan, at = plan_of("fedavg", epochs=1)
    plan = plan._replace(fed=plan.fed._replace(least_mix=2))
    few = plan._replace(rule=replace(plan.rule, participation=0.4))  # which a run would be refused for
    with opened("loop")(few, at) as carrier:
        rounds = list(ServerSide(few, carrier).rounds())
    assert all(one.took_part == [] and one.bytes_up == 0 for one in rounds)
    assert "fewer uploads than the 3" in next(iter(rounds[0].dropped.values()))
    enough = plan._replace(rule=replace(plan.rule, participation=0.6))
    with opened("loop")(enough, at) as carrier:
        assert all(len(one.took_part) == 3 for one in ServerSide(enough, carrier).rounds())


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].hands_on])
def test_methods_that_hand_models_on_are_refused(method: str) -> None:
    with pytest.raises(InputError, match="hands them on"):
        resolve(amity.Run(method, min_mix=2), roster_of(Silos(tuple(silos(5)), 3, "own", "own")))


@pytest.mark.parametrize(
    ("options", "others"),
    [({"min_mix": 5}, 4), ({"min_mix": 2, "participation": 0.4}, 1), ({"min_mix": 3, "drop": 0.4}, 2)],
)
def test_more_than_a_round_brings_cannot_be_mixed(options: dict[str, Any], others: int) -> None:
    """Every round would come to nothing: that is said before the first."""
    roster = roster_of(Silos(tuple(silos(5)), 3, "own", "own"))
    with pytest.raises(InputError, match=f"there are {others}: choose less"):
        resolve(amity.Run("fedamp", **options), roster)
    assert resolve(amity.Run("fedamp", **{**options, "min_mix": others}), roster).plan.fed.least_mix == others
