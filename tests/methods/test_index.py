"""Every named invariant of the methods, and every theorem, exists as a test that carries its name."""

import re
from pathlib import Path

import pytest

# Family -> how many invariants it has; docs/methods.md lists the tests, the test files state them.
FAMILIES = {
    "com": 6,
    "sep": 1,
    "avg": 3,
    "prox": 3,
    "ft": 3,
    "sca": 5,
    "vrl": 4,
    "apfl": 5,
    "dit": 5,
    "l2": 6,
    "pme": 4,
    "per": 4,
    "fom": 6,
    "amp": 11,
    "heur": 8,
    "att": 6,
    "acs": 7,
    "app": 8,
    "psg": 7,
    "twi": 7,
    "bn": 3,
    "rep": 3,
    "babu": 3,
    "mrm": 4,
    "ala": 5,
    "ifca": 4,
    "gra": 6,
}
NAMES = [f"{family}_{number}" for family, count in FAMILIES.items() for number in range(1, count + 1)]
THEOREMS = [f"t{number}" for number in range(1, 7)]

TESTS = [
    name
    for file in Path(__file__).parents[1].rglob("test_*.py")
    for name in re.findall(r"^\s*def (test_\w+)\(", file.read_text(encoding="utf-8"), re.M)
]


@pytest.mark.parametrize("name", [*NAMES, *THEOREMS])
def test_the_invariant_has_a_test(name: str) -> None:
    assert any(re.search(rf"_{name}(_|$)", test) for test in TESTS), f"no test is called test_{name}_..."
