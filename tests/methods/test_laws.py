"""Every law for every method. A new row of METHODS is tested by being there.

The laws stand in `amity.testing`: here they are put to the methods of the table, and to settings that are worth a run
of their own (`cases.py`). Every method is put to them over the local carrier, every setting to some of them,
and both to the law that the two carriers agree in all bits. Laws in which the carrier has a part of its own are put to
some methods over the other one as well. The slow tests put all methods and settings to all laws over both.

What differs from method to method stands in `tables.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from methods.cases import CASES, DEFAULTS, VARIANTS
from methods.tables import ALONE, bytes_of, sends_what_the_formula_says, trains_alone, wire_of
from small import batchnorm, flat, mlp, near, run, silo, silos, task

from amity.contract import InputError
from amity.learn.streams import stream
from amity.learn.task import Task
from amity.methods import METHODS
from amity.testing import LAWS, check_law
from amity.testing.cases import Case, On, finite

every = pytest.mark.parametrize("case", DEFAULTS, ids=str)
every_variant = pytest.mark.parametrize("case", CASES, ids=str)

# The names under which docs/methods.md knows laws that hold for all methods.
COM = {
    "com_1_relabelling": ("relabelling", "relabelling_of_full_rounds"),
    "com_2_one_silo": ("one_silo",),
    "com_3_equal_models": ("equal_models", "rate_zero"),
    "com_4_absence": ("absent", "never_active", "lost_upload", "not_finite", "hostile"),
    "com_6_equal_bits": ("same_seed", "keyed_draws", "another_seed", "workers", "resume", "resume_of_full_rounds"),
}

CARRIED = ("absent", "lost_upload", "not_finite", "hostile", "membership", "resume")
"""Laws of what is lost, refused, joined or kept on disk, all of which a carrier has a hand in."""

SOME = ("fedavg", "fedamp", "apple", "scaffold", "ditto")
"""Methods for these over the second carrier: with one model, a cloud model, several, controls, two of one's own."""


VARIED = ("absent", "carriers", "coupling", "membership", "resume")
"""Laws for other settings of a method in the quick tests: whose data count, who is not there, equal bits."""


def put_to(names: tuple[str, ...]) -> list[Any]:
    """The cases and carriers of these laws."""
    found = []
    for name in names:
        law = LAWS[name]
        for on in law.over:
            # Both carriers give the same, which the law `carriers` shows: one of them is enough.
            first = on == law.over[0]
            for case in CASES if law.variants and first else DEFAULTS:
                usual = case in DEFAULTS or name in VARIED
                quick = usual and (first or (name in CARRIED and case.name in SOME))
                marks = [] if quick else [pytest.mark.slow]
                found.append(pytest.param(name, case, on, id=f"{name}-{on}-{case}", marks=marks))
    return found


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns as often as they can, so that what depends on scheduling shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize(("name", "case", "on"), put_to(COM["com_1_relabelling"]))
def test_com_1_relabelling_permutes(name: str, case: Case, on: On) -> None:
    check_law(name, case, on)


@pytest.mark.parametrize(("name", "case", "on"), put_to(COM["com_2_one_silo"]))
def test_com_2_one_silo_is_the_only_one_in_its_weights(name: str, case: Case, on: On) -> None:
    check_law(name, case, on)


@pytest.mark.parametrize(("name", "case", "on"), put_to(COM["com_3_equal_models"]))
def test_com_3_a_mixture_of_equal_models_is_that_model(name: str, case: Case, on: On) -> None:
    check_law(name, case, on)


@pytest.mark.parametrize(("name", "case", "on"), put_to(COM["com_4_absence"]))
def test_com_4_who_does_not_take_part_keeps_what_it_has(name: str, case: Case, on: On) -> None:
    check_law(name, case, on)


@pytest.mark.parametrize(("name", "case", "on"), put_to(COM["com_6_equal_bits"]))
def test_com_6_the_same_seed_gives_the_same_bits(name: str, case: Case, on: On, busy_threads: None) -> None:
    check_law(name, case, on)


OTHERS = tuple(name for name in LAWS if not any(name in names for names in COM.values()))


@pytest.mark.parametrize(("name", "case", "on"), put_to(OTHERS))
def test_the_law_holds(name: str, case: Case, on: On) -> None:
    check_law(name, case, on)


@pytest.mark.parametrize("make", [mlp, batchnorm])
def test_sep_1_other_silos_do_not_matter(make: Callable[[], Any]) -> None:
    """Neither their labels, nor their inputs, nor their number."""
    at = silos()
    other = [at[0], *(silo(f"other {i}", 5 + i, seed=9) for i in range(2))]
    assert torch.equal(
        flat(run("separate", at=at, on=task(make))[-1])[0], flat(run("separate", at=other, on=task(make))[-1])[0]
    )
    assert torch.equal(
        flat(run("separate", at=at, on=task(make))[-1])[0], flat(run("separate", at=at[:1], on=task(make))[-1])[0]
    )


# COM-2: with one silo every aggregation is the identity


@pytest.mark.parametrize("case", [c for c in CASES if c.name in ALONE and c.settings.get("local") != "step"], ids=str)
def test_com_2_one_client_trains_alone(case: Case) -> None:
    """But for `local = step`, which is other local work than epochs."""
    trains_alone(case)


def test_com_2_apple_alone_stores_what_it_uploads() -> None:
    (first, second) = run("apple", at=silos(1), rounds=2)
    for report in (first, second):
        mine = report.clients[0]
        assert torch.equal(report.progress.server["cores"], mine["cores"])
        assert near(report.personal(0)["params"], mine["relations"][0] * mine["cores"][0])
        assert report.bytes_down == 0


# Given weights


@pytest.mark.parametrize("case", [c for c in VARIANTS if "independent" in c.settings.values()], ids=str)
def test_independent_models_refuse_given_weights(case: Case) -> None:
    on = task()
    with pytest.raises(InputError, match="independent first models need random weights"):
        run(case.method, on=task(start=on.export_state(on.init(stream(0, "given")))))


# COM-5: bytes on the wire, by the table of methods.md section 11


@every_variant
def test_com_5_bytes_equal_the_formula(case: Case) -> None:
    sends_what_the_formula_says(case)


@every
@pytest.mark.parametrize(("share", "active"), [(1.0, 5), (0.5, 3)])
def test_com_5_bytes_without_buffers(case: Case, share: float, active: int) -> None:
    wire = wire_of(case, task(), 5, asked=active)
    rounds = run(case.method, rounds=2, epochs=1, participation=share)
    assert all(bytes_of(report, wire, active) for report in rounds)


@every
def test_com_5_float32_models_take_four_bytes(case: Case) -> None:
    on = Task(batchnorm, (3,), 3)
    wire = wire_of(case, on, 5, itemsize=4)
    assert all(bytes_of(report, wire, 5) for report in run(case.method, on=on, rounds=2, epochs=1))


@every
@pytest.mark.parametrize("phase", ["before", "after"])
def test_com_5_bytes_of_dropped_silos(case: Case, phase: str) -> None:
    """Who drops before training downloads nothing; what is lost after training was downloaded for, not received."""
    wire = wire_of(case, task(), 5, asked=3 if phase == "before" else 5)
    report = run(case.method, rounds=2, epochs=1, drop=0.4, drop_phase=phase)[1]
    assert report.bytes_down == (3 if phase == "before" else 5) * wire.down
    assert report.bytes_up == 3 * wire.up


# Edge cases


@pytest.mark.parametrize("k", [1, 4, 5, 50])
def test_edge_k_beyond_the_pool(k: int) -> None:
    rounds = run("pfedatt", settings={"k": k}, participation=0.6)
    for report in rounds:
        weights = report.weights
        assert weights is not None
        kept = weights[report.took_part]
        assert ((kept > 0).sum(1) <= min(k, 3)).all() and near(kept.sum(1), torch.ones(3, dtype=torch.float64))
        told = [
            words for words in report.warnings if "--min-mix" not in words
        ]  # whom a mixture shows is another matter
        assert bool(told) == (k > 5)
    assert finite(rounds)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_edge_quantiles_at_the_ends(p: float) -> None:
    rounds = run("fedacs", settings={"p": p})
    assert finite(rounds)
    weights = rounds[-1].weights
    assert weights is not None
    assert near(weights.sum(1), torch.ones(5, dtype=torch.float64))
    if p == 1:  # nothing is above the largest similarity: everybody keeps itself alone
        assert torch.equal(weights, torch.eye(5, dtype=torch.float64))


def test_every_row_has_its_formulas() -> None:
    """The tables above say something about every method."""
    assert ALONE.keys() == METHODS.keys()
    for name in METHODS:
        wire_of(Case(name), task(), 5)
