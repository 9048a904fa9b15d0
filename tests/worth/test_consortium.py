"""Whether joining was worth it for all together: counts, chance and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from amity.worth.consortium import CLEAR, WRONG, Counts, answer, beyond_chance, chance_of, counted


@given(st.integers(1, 300).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m))))
def test_chance_is_binomial(drawn: tuple[int, int]) -> None:
    found, silos = drawn
    assert chance_of(found, silos) == pytest.approx(float(stats.binom.sf(found - 1, silos, 0.025)), rel=1e-6, abs=1e-15)


def test_few_silos_by_hand() -> None:
    assert chance_of(1, 3) == pytest.approx(1 - 0.975**3) and chance_of(1, 3) > CLEAR
    assert chance_of(2, 3) == pytest.approx(3 * 0.025**2 * 0.975 + 0.025**3) and chance_of(2, 3) < CLEAR
    assert chance_of(0, 5) == 1.0 and pytest.approx(0.025) == WRONG


def test_judgements_are_counted() -> None:
    found = counted(["gains", "better alone", "gains", "no clear difference", "cannot be compared"])
    assert found == Counts(2, 1, 1, 1) and found.compared == 4


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            Counts(7, 2, 11, 0),
            "Joining was worth it for 7 of 20 silos; 2 are better alone; for 11 there is no clear difference.",
        ),
        (Counts(3, 0, 0, 0), "Joining was worth it for all 3 silos."),
        (Counts(0, 0, 4, 0), "None of 4 silos shows a clear difference between joining and training alone."),
        (
            Counts(0, 1, 5, 0),
            "Joining was worth it for none of 6 silos; 1 is better alone; for 5 there is no clear difference.",
        ),
        (Counts(0, 2, 0, 0), "Joining was worth it for none of 2 silos: all of them are better alone."),
        (Counts(1, 0, 0, 0), "Joining was worth it for the only silo."),
        (Counts(0, 1, 0, 0), "The only silo is better alone."),
        (Counts(2, 0, 0, 1), "Joining was worth it for all 2 silos; 1 silo cannot be compared."),
        (
            Counts(0, 0, 0, 2),
            "Whether joining was worth it cannot be said: no silo has both models' results on test examples.",
        ),
    ],
)
def test_the_answer_is_one_sentence(counts: Counts, words: str) -> None:
    assert answer(counts) == words


def test_chance_is_said_in_words() -> None:
    said = beyond_chance(Counts(7, 2, 11, 0), [1.0] * 20)
    assert "7 gains are more than that (p < 0.0001)" in said and "2 losses are not clearly more" in said
    assert "mean difference is +1.0 points (signed-rank test: p < 0.0001)" in said
    assert "about 5 false gains among 200 silos" in beyond_chance(Counts(0, 0, 200, 0), [])
    assert "read each silo's own verdict" in beyond_chance(Counts(1, 0, 0, 0), [3.0])
    assert "1 gain is not clearly more than that (p = 0.0731)" in beyond_chance(Counts(1, 0, 2, 0), [3.0, 0.0, 0.0])
    assert "too few silos, never below 0.25" in beyond_chance(Counts(3, 0, 0, 0), [3.0, 2.0, 1.0])
    assert beyond_chance(Counts(0, 0, 0, 3), []) == ""
