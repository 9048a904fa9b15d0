"""From a run and a roster to a plan: the same at the server and at every silo, and from the roster alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from four_silos import CLASSES, FEATURES, arrays

import amity
from amity.config.run import Run
from amity.contract import InputError, Validating
from amity.data.silos import Silos
from amity.federation.plan import Member, Plan, layout_of, member_of
from amity.methods import METHODS, build
from amity.prepare import prepare, ready, roster_of
from amity.resolve import RATES, Resolved, method_of, resolve

RUN = Run("fedavg", model="mlr", rounds=3)


def member(name: str, size: int = 30, **changes: Any) -> Member:
    """Return a line of the roster."""
    return Member(name, size, (FEATURES,), CLASSES)._replace(**changes)


def roster(*sizes: int) -> list[Member]:
    """Return a roster of silos of these sizes."""
    return [member(f"silo-{place}", size) for place, size in enumerate(sizes)]


def described(members: Sequence[Member]) -> list[Member]:
    """Return a roster as it comes out of a message: through JSON, in which tuples are lists."""
    lines = json.loads(json.dumps([one._asdict() for one in members]))
    return [Member(**{**line, "shape": tuple(line["shape"])}) for line in lines]


def equal(one: Plan, other: Plan) -> bool:
    """Return whether two sides that have these plans do the same, first weights included."""
    facts = [(plan.method, plan.solver, plan.rule, layout_of(plan), plan.task.classes) for plan in (one, other)]
    public = [
        (plan.fed.rounds, plan.fed.seed, plan.fed.sizes.tolist(), plan.fed.keys.tolist()) for plan in (one, other)
    ]
    groups = [None if plan.fed.groups is None else plan.fed.groups.tolist() for plan in (one, other)]
    first, second = (plan.task.initial(plan.fed) for plan in (one, other))
    weights = first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    return weights and facts[0] == facts[1] and public[0] == public[1] and groups[0] == groups[1]


def own() -> Silos:
    """Return three silos of different sizes."""
    return amity.own_silos({f"s{place}": arrays(place, size) for place, size in enumerate((30, 61, 90))})


# Both sides come to the same plan.


@pytest.mark.parametrize("method", METHODS)
def test_the_server_and_a_silo_come_to_equal_plans(method: str) -> None:
    """The server has prepared all silos; a silo has its own data, and a roster that came as a message."""
    run = Run(method, model="mlr", rounds=3, val_fraction=0.25, seed=7)
    server = prepare(run, own())
    name, built = method_of(run)
    each = [replace(own(), silos=(silo,)) for silo in own().silos]
    members = [line for one in each for line in roster_of(ready(one, run, name, built))]
    for _ in each:  # at every one of them
        assert equal(resolve(run, described(members)).plan, server.plan)


def test_a_member_is_described_by_its_own_data_alone() -> None:
    """In a federation of one, and among others: the same line."""
    run = Run("fedavg", per_silo=25, val_fraction=0.2)
    name, method = method_of(run)
    together = roster_of(ready(own(), run, name, method))
    alone = [roster_of(ready(replace(own(), silos=(silo,)), run, name, method))[0] for silo in own().silos]
    assert together == alone
    assert [one.size for one in alone] == [20, 20, 20] and all(one.validates for one in alone)


def test_the_plan_follows_from_the_roster_and_not_from_data() -> None:
    """Other examples, the same roster: the same plan. Another size, another plan."""
    first = own()
    other = amity.own_silos({f"s{place}": arrays(place + 50, size) for place, size in enumerate((30, 61, 90))})
    members = [[member_of(silo, CLASSES) for silo in one.silos] for one in (first, other)]
    assert members[0] == members[1]
    assert equal(resolve(RUN, members[0]).plan, resolve(RUN, members[1]).plan)
    grown = [members[0][0]._replace(size=31), *members[0][1:]]
    assert not equal(resolve(RUN, members[0]).plan, resolve(RUN, grown).plan)


def test_resolving_again_changes_nothing() -> None:
    """A run without any `auto` is what it was: config.toml runs again what it was written for."""
    for method in METHODS:
        once = resolve(Run(method, model="mlr"), roster(30, 61, 90))
        again = resolve(once.run, roster(30, 61, 90))
        assert again.run == once.run and equal(again.plan, once.plan)


def test_no_auto_is_left() -> None:
    table = resolve(Run("apple"), roster(30, 61, 90)).run.table()
    left = {key for key, value in table.items() if value == "auto"}
    assert left == {
        "setting",
        "labels",
        "label",
        "scale",
        "workers",
        "engine",
        "checkpoint_every",
        "dp_clip",
        "dp_delta",
    }  # these change no plan


# What `auto` becomes.


@pytest.mark.parametrize(
    ("sizes", "batch"),
    [
        ((30, 61, 90), 20),  # the median is 61
        ((30, 60, 62, 90), 20),  # between 60 and 62
        ((2, 2, 2), 1),
        ((1, 1), 1),  # never none
        ((3, 9, 9000), 3),
        ((9000, 9000), 100),  # the method's own is the most
    ],
)
def test_the_batch_is_a_third_of_the_median_silo(sizes: tuple[int, ...], batch: int) -> None:
    for members in (roster(*sizes), roster(*reversed(sizes))):
        found = resolve(RUN, members)
        assert found.plan.solver.batch == found.run.batch == batch


def test_what_is_given_is_not_resolved() -> None:
    found = resolve(replace(RUN, batch=7, lr=0.5, optimizer="sgd", momentum=0.3), roster(30, 60))
    assert found.plan.solver == amity.Solver("sgd", 0.5, 0.3, 1.0, 7)


def test_another_optimizer_has_its_own_usual_rate() -> None:
    for optimizer in ("adam", "sgd"):
        solver = resolve(replace(RUN, optimizer=optimizer), roster(30)).plan.solver
        assert (solver.optimizer, solver.rate) == (optimizer, RATES[optimizer])


def test_the_classes_are_the_union() -> None:
    """Silos that know fewer classes learn a model of all."""
    members = [member("a", classes=2), member("b", classes=7), member("c", classes=3)]
    for order in (members, members[::-1]):
        task = resolve(RUN, order).plan.task
        assert task.classes == 7
        assert task.size == 7 * (FEATURES + 1)


def test_quantities_have_one_output() -> None:
    found = resolve(RUN, [member("a", classes=0), member("b", classes=0)])
    assert found.plan.task.classes == 0 and found.plan.task.size == FEATURES + 1


def test_the_validation_share_is_the_methods_own() -> None:
    fomo = build("fedfomo")
    assert isinstance(fomo, Validating) and fomo.validation > 0
    assert resolve(Run("fedfomo", model="mlr"), roster(30, 30)).run.val_fraction == fomo.validation
    assert resolve(RUN, roster(30, 30)).run.val_fraction == 0
    assert resolve(replace(RUN, val_fraction=0.3), roster(30, 30)).run.val_fraction == 0.3


def test_a_method_that_validates_wants_validation_data_from_somewhere() -> None:
    none = Run("fedfomo", model="mlr", val_fraction=0.0)
    with pytest.raises(InputError, match="fedfomo needs validation data, got val_fraction 0"):
        resolve(none, [member("a", validates=True), member("b")])
    resolve(none, [member("a", validates=True), member("b", validates=True)])  # they bring it


def test_pooled_has_all_data_at_the_first_silo_and_the_batch_of_the_silos() -> None:
    found = resolve(replace(RUN, method="pooled"), roster(30, 60, 90))
    assert found.plan.fed.sizes.tolist() == [180, 0, 0]
    assert found.plan.solver.batch == 20


def test_the_public_facts_are_the_rosters() -> None:
    fed = resolve(replace(RUN, seed=9), [member("a", 5, group=1), member("b", 6, group=0)]).plan.fed
    assert (fed.clients, fed.rounds, fed.seed) == (2, 3, 9)
    assert fed.sizes.tolist() == [5, 6] and fed.groups is not None and fed.groups.tolist() == [1, 0]
    some = resolve(RUN, [member("a", group=1), member("b")]).plan.fed
    assert some.groups is None  # known of all, or of none


# Rosters that no plan fits.


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            {"shape": (FEATURES + 1,)},
            "silos need examples of one shape, 'north' has [6], 'south' [7]: bring them to one form",
        ),
        (
            {"shape": (2, 3)},
            "silos need examples of one shape, 'north' has [6], 'south' [2, 3]: bring them to one form",
        ),
        ({"classes": 0}, "silos need one kind of labels, 'north' and 'south' differ: look at both"),
    ],
)
def test_silos_that_differ_are_refused_in_one_line(other: dict[str, Any], words: str) -> None:
    members = [member("north"), member("middle"), member("south", **other)]
    with pytest.raises(InputError) as refused:
        resolve(RUN, members)
    assert str(refused.value) == words


def test_one_example_is_too_little_for_a_model_that_normalises() -> None:
    def network() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(FEATURES, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, CLASSES))

    def at(*sizes: int, **changes: Any) -> Resolved:
        return resolve(replace(RUN, **changes), roster(*sizes), model=network)

    with pytest.raises(InputError, match="needs 2 training examples per silo, 'silo-1' has 1: leave it out"):
        at(30, 1, 30)
    with pytest.raises(InputError, match="needs a batch of at least 2, got 1: raise --batch"):
        at(30, 30, batch=1)
    at(30, 2, 30)
