"""All data in one place, and then an ending: every silo goes on with its own examples, however silos are run."""

from __future__ import annotations

from typing import Literal

import pytest

import amity


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_every_silo_goes_on_with_its_own_examples(engine: Literal["loop", "stacked"]) -> None:
    run = amity.Run(
        "pooled",
        data="digits",
        setting="pathological",
        clients=6,
        model="mlr",
        rounds=1,
        epochs=1,
        ending=2,
        engine=engine,
    )
    before, after = amity.run(run).record.lines
    assert set(after["holds"].values()) == {"together, 2 epochs"}
    ones, others = ([value or 0.0 for value in line["accuracy"] or []] for line in (before, after))
    assert len(ones) == 6 and all(other > one for one, other in zip(ones, others, strict=True))
