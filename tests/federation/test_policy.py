"""A silo's policy: all that speaks against a run is said, and a looser policy never refuses what a stricter allowed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from signed_contracts import CONTRACT, contracts, with_run
from table_silos import asked

from amity.errors import InputError
from amity.federation.approvals import Approval
from amity.federation.policy import SiloPolicy, decide, objections, policy_of
from amity.federation.run_contract import Leaving, RunContract

STRICT = SiloPolicy(("fedavg",), 5, 1, 4, 3, 0.001, ("loss",), ("float16",))


def approval_of(contract: RunContract, silo: str = "aurora") -> Approval:
    return Approval(contract.hash(), contract.name, silo, "ada", "2026-03-01T12:00:00+00:00")


def test_without_a_policy_somebody_is_asked() -> None:
    asked = decide(CONTRACT, SiloPolicy(), [])
    assert not asked.approved and asked.by == ""
    assert asked.reasons == ("nobody here has approved it by hand: amity federation approve sepsis-1 --site SITE",)
    assert decide(CONTRACT, SiloPolicy(), [approval_of(CONTRACT)], silo="aurora") == (True, "ada", ())


def test_a_standing_policy_needs_nobody() -> None:
    assert decide(CONTRACT, SiloPolicy(approve="standing"), []) == (True, "standing policy", ())


def test_all_reasons_are_given() -> None:
    assert decide(CONTRACT, STRICT, [], silo="dune").reasons == (
        "dune is not among those invited",
        "methods allows fedavg, it has fedamp",
        "most_rounds is 5, it has 8",
        "most_epochs is 1, it has 2",
        "least_invited is 4, it has 3",
        "least_quorum is 3, it has 2",
        "most_megabytes is 0.001, it has 0.004016",
        "metrics allows loss, it has accuracy",
        "wire allows float16, it has float32",
        "nobody here has approved it by hand: amity federation approve sepsis-1 --site SITE",
    )


def test_an_approval_by_hand_does_not_lift_the_limits() -> None:
    decision = decide(CONTRACT, replace(STRICT, methods="any"), [approval_of(CONTRACT)])
    assert not decision.approved and decision.by == "ada" and len(decision.reasons) == 7


@pytest.mark.parametrize(
    ("limit", "contract", "allowed"),
    [
        ({"most_rounds": 8}, CONTRACT, True),
        ({"most_rounds": 7}, CONTRACT, False),
        ({"most_epochs": 2}, CONTRACT, True),
        ({"most_epochs": 8}, with_run(CONTRACT, local_epochs_range="1:9"), False),
        ({"most_epochs": 9}, with_run(CONTRACT, local_epochs_range="1:9"), True),
        ({"least_invited": 3}, CONTRACT, True),
        ({"least_quorum": 2}, CONTRACT, True),
        ({"most_megabytes": 0.004016}, CONTRACT, True),
        ({"most_megabytes": 0.004015}, CONTRACT, False),
        ({"most_megabytes": 0.004016}, replace(CONTRACT, leaves=(Leaving("a", "tensor", 4017, "."),)), False),
        ({"metrics": ("accuracy",)}, CONTRACT, True),
        ({"metrics": ()}, CONTRACT, False),
        ({"wire": ("float16", "float32")}, CONTRACT, True),
        ({"least_mix": 2}, CONTRACT, False),
        ({"least_mix": 2}, with_run(replace(CONTRACT, quorum=3), min_mix=2), True),
        ({"least_mix": 2}, with_run(CONTRACT, method="separate", set={}), True),  # sends nobody anything
        ({"least_tested": 5}, CONTRACT, False),
        ({"least_tested": 5}, with_run(CONTRACT, min_count=4), False),
        ({"least_tested": 5}, with_run(CONTRACT, min_count=5), True),
    ],
)
def test_limits_are_exact(limit: dict[str, Any], contract: RunContract, allowed: bool) -> None:
    assert decide(contract, SiloPolicy(approve="standing", **limit), []).approved == allowed


def test_an_approval_counts_for_its_silo_alone() -> None:
    assert not decide(CONTRACT, SiloPolicy(), [approval_of(CONTRACT, "borea")], silo="aurora").approved


@given(approved=contracts(), other=contracts())
def test_an_approval_is_for_one_contract(approved: RunContract, other: RunContract) -> None:
    assume(approved.hash() != other.hash())
    approvals = [approval_of(approved)]
    assert decide(approved, SiloPolicy(), approvals).approved
    assert not decide(other, SiloPolicy(), approvals).approved


@given(approved=contracts(), other=contracts(), data=st.data())
def test_where_one_thing_changes_an_approval_no_longer_counts(
    approved: RunContract, other: RunContract, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([field.name for field in fields(RunContract)]))
    try:
        changed = replace(approved, **{name: getattr(other, name)})
    except InputError:
        assume(False)
    assume(changed.canonical() != approved.canonical())
    assert not decide(changed, SiloPolicy(), [approval_of(approved)]).approved


WORDS = st.sampled_from(["fedavg", "fedamp", "accuracy", "loss", "float32", "float16"])
LISTS: st.SearchStrategy[Any] = st.just("any") | st.lists(WORDS, max_size=4, unique=True).map(tuple)
NUMBERS = st.none() | st.integers(1, 1000)


@st.composite
def policies(draw: st.DrawFn) -> SiloPolicy:
    return SiloPolicy(
        draw(LISTS),
        draw(NUMBERS),
        draw(NUMBERS),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 5)),
        draw(NUMBERS),
        draw(LISTS),
        draw(LISTS),
        draw(st.sampled_from(["by hand", "standing"])),
    )


@st.composite
def loosened(draw: st.DrawFn, policy: SiloPolicy) -> SiloPolicy:
    """A policy that allows all that this one does."""

    def wider(words: Any) -> Any:
        return draw(st.just("any") | st.lists(WORDS).map(lambda more: (*words, *more))) if words != "any" else "any"

    def more(most: Any) -> Any:
        return None if most is None else draw(st.none() | st.integers(most, 10**6))

    return SiloPolicy(
        wider(policy.methods),
        more(policy.most_rounds),
        more(policy.most_epochs),
        draw(st.integers(1, policy.least_invited)),
        draw(st.integers(1, policy.least_quorum)),
        more(policy.most_megabytes),
        wider(policy.metrics),
        wider(policy.wire),
        "standing" if policy.approve == "standing" else draw(st.sampled_from(["by hand", "standing"])),
    )


@given(contract=contracts(), policy=policies(), approve=st.booleans(), data=st.data())
def test_a_looser_policy_never_refuses_what_a_stricter_one_approved(
    contract: RunContract, policy: SiloPolicy, approve: bool, data: st.DataObject
) -> None:
    approvals = [approval_of(contract)] if approve else []
    strict, loose = decide(contract, policy, approvals), decide(contract, data.draw(loosened(policy)), approvals)
    assert loose.approved or not strict.approved
    assert len(loose.reasons) <= len(strict.reasons)
    assert strict.approved == (not strict.reasons) and (strict.by != "") >= strict.approved
    assert decide(contract, policy, []).reasons[: len(objections(contract, policy))] == tuple(
        objections(contract, policy)
    )


def test_the_table_of_a_silo_toml() -> None:
    assert policy_of({}) == SiloPolicy() and SiloPolicy().approve == "by hand"
    table = {
        "methods": ["fedamp"],
        "most_rounds": 100,
        "most_epochs": 5,
        "least_invited": 3,
        "least_quorum": 2,
        "most_megabytes": 0.5,
        "metrics": "any",
        "wire": ["float32"],
        "approve": "standing",
        "summaries": "never",
        "least_count": 10,
        "most_epsilon": 4,
        "least_mix": 3,
        "least_tested": 5,
    }
    assert table.keys() == {field.name for field in fields(SiloPolicy)}
    assert policy_of(table) == SiloPolicy(
        ("fedamp",), 100, 5, 3, 2, 0.5, "any", ("float32",), "standing", "never", 10, 4, 3, 5
    )


def test_summaries_are_a_matter_of_their_own() -> None:
    """Who lets runs begin without being asked has not agreed to summaries of columns by that."""
    contract = asked(("aurora", "borea"), least_count=8)
    by_hand = decide(contract, SiloPolicy(approve="standing"), [], silo="aurora")
    assert by_hand.reasons == (
        "nobody here has approved it by hand: amity federation approve trial-schema --site SITE",
    )
    assert decide(contract, SiloPolicy(summaries="standing"), [], silo="aurora").approved
    given = [Approval(contract.hash(), contract.name, "aurora", "ada", "2026-03-01T12:00:00+00:00")]
    assert decide(contract, SiloPolicy(), given, silo="aurora").by == "ada"
    strict = SiloPolicy(summaries="never", least_count=10, least_invited=3)
    assert decide(contract, strict, given, silo="dune").reasons[:4] == (
        "dune is not among those invited",
        "summaries is never, it asks for one of this silo's columns",
        "least_invited is 3, it has 2",
        "least_count is 10, it has 8",
    )


def test_all_that_is_wrong_with_a_table_is_said_at_once() -> None:
    wrong = {
        "methods": "fedamp",
        "most_rounds": 0,
        "most_epochs": True,
        "least_invited": "3",
        "least_quorum": 1.5,
        "most_megabytes": float("nan"),
        "metrics": [1],
        "wire": ["int8"],
        "approve": "never",
        "aprove": "standing",
    }
    with pytest.raises(InputError) as refused:
        policy_of(wrong)
    assert all(f"{key} must be " in str(refused.value) for key in wrong if key != "aprove")
    assert "unknown key 'aprove': did you mean approve?" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(InputError, match="is a table"):
        policy_of(["fedamp"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "most_epsilon is 4, it adds no noise"),
        ({"dp_noise": 1.0}, "most_epsilon is 4, it gives the noise and no dp_epsilon"),
        ({"dp_epsilon": 8.0}, "most_epsilon is 4, it has 8"),
        ({"dp_epsilon": 4.0}, None),
    ],
)
def test_a_silo_can_ask_for_differential_privacy(options: dict[str, Any], words: str | None) -> None:
    assert objections(with_run(CONTRACT, **options), policy_of({"most_epsilon": 4})) == (
        [] if words is None else [words]
    )
