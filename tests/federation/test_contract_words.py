"""Contracts in plain words: nothing that matters to a silo is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from signed_contracts import CONTRACT, contracts, with_run
from table_silos import asked

from amity.data.schema.summary import LEAST, MOST, VERSION
from amity.federation.contract_words import bytes_in_total, bytes_per_round, in_words, size
from amity.federation.run_contract import DataForm, Limits, RunContract, schema_hash
from amity.federation.schema_contract import FEWEST


def test_what_a_silo_agrees_to_is_all_there() -> None:
    words = in_words(CONTRACT)
    for needed in (
        "run sepsis-1 of the consortium north (Amity 0.1.0)",
        CONTRACT.hash(),
        "invited: 3 silos: aurora, borea, cirrus",
        "a round goes on without those that are missing, as long as 2 are there",
        "only if each silo has taken part in 4 rounds",
        "a turn may take 1 hour; after 20 restarts",
        "fedamp, model auto, 8 rounds, 2 local epochs each",
        "sigma = 50.0",
        "3 numbers (age, pulse, sugar), labels: 2 classes (ill, well)",
        "4.0 kB  1,000 numbers in every round",
        "at most 4.0 kB in a round, 32.1 kB in all 8 rounds",
        "numbers sent as float32",
    ):
        assert needed in words


def test_other_contracts_are_told_otherwise() -> None:
    waiting = replace(CONTRACT, policy="wait", quorum=3, limits=Limits(turn=90, absence=172800), wire="float16")
    assert "the run waits for silos that are missing, 2 days at most" in in_words(waiting)
    assert "a turn may take 90 seconds" in in_words(waiting) and "sent as float16" in in_words(waiting)
    unusual = with_run(CONTRACT, local_epochs_range="1:9", participation=0.5, lr=0.5, train_loss=True)
    assert "1 to 9 local epochs each, 50% of the silos in a round" in in_words(unusual)
    assert "lr = 0.5, train_loss = True, sigma = 50.0" in in_words(unusual)
    many = replace(CONTRACT, data=DataForm((1, 28, 28), tuple(f"c{at}" for at in range(20))))
    assert "1x28x28, labels: 20 classes (c0, c1," in in_words(many) and "c11 and 8 more)" in in_words(many)
    assert "labels: quantities" in in_words(replace(CONTRACT, data=DataForm((3,), None)))
    noisy = in_words(with_run(CONTRACT, dp_epsilon=3.0))
    assert "differential privacy for each training example (epsilon = 3.0, clip = 1.0, delta = 1 / (10 n))" in noisy
    assert "privacy" not in in_words(CONTRACT) and "dp_epsilon" not in noisy


def test_what_is_kept_back_and_mixed_is_said() -> None:
    plain = in_words(CONTRACT)
    assert "fewer than" not in plain and "mixes the models" not in plain
    strict = in_words(with_run(replace(CONTRACT, quorum=3), min_count=7, min_mix=2))
    assert "what a silo is sent mixes the models of at least 2 others, or of none" in strict
    assert "no score that rests on fewer than 7 test examples" in strict and "min_" not in strict


def test_what_a_summary_tells_is_all_there() -> None:
    contract = asked(("aurora", "borea"), least_count=8)
    words = in_words(contract)
    for needed in (
        "schema trial-schema of the consortium trial-consortium",
        contract.hash(),
        "invited: 2 silos: aurora, borea",
        "No model is",
        "tables whose column 'diagnosis' has the labels: 2 classes (ill, well)",
        "by mean and deviation over all silos",
        "seed 2, 20% of them for testing",
        "the mean of its numbers and the sum of their squared deviations",
        "words and codes that at least 8 rows share, each with its number of rows, 50 at most",
        "of numbers, or words, that fewer than 8 rows of a column have nothing is told",
        "never a row, a rarer word, a smallest or largest number, a label",
    ):
        assert needed in words
    assert f", {MOST} at most" in words and contract.summary == VERSION and FEWEST == LEAST


def test_a_run_by_a_schema_says_which() -> None:
    columns = [{"name": "age", "kind": "number"}, {"name": "sex", "kind": "category", "categories": ["f", "m"]}]
    schema = {"version": 1, "label": "ill", "columns": columns}
    coded = replace(CONTRACT, data=DataForm((3,), ("ill", "well"), ("age", "sex=f", "sex=m"), schema))
    words = in_words(coded)
    assert f"tables are coded by the schema {schema_hash(schema)}: columns of kind 1 number, 1 category" in words
    assert "    sex: f, m" in words
    assert coded.hash() != replace(CONTRACT, data=coded.data._replace(schema=None)).hash()


@given(contract=contracts())
def test_every_contract_can_be_told(contract: RunContract) -> None:
    words = in_words(contract)
    assert all(name in words for name in (contract.name, contract.consortium, *contract.invited, contract.wire))
    assert all(leaving.name in words and leaving.words in words for leaving in contract.leaves)
    assert bytes_in_total(contract) == contract.run["rounds"] * bytes_per_round(contract)


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (6_600_000, "6.6 MB"), (10**13, "10,000.0 GB")]
)
def test_sizes(count: int, words: str) -> None:
    assert size(count) == words
