"""What METHODS says about the local work behind an evaluated model is so."""

from __future__ import annotations

import pytest
from small import models_of, opened, plan_of, relabelled, run, same, silos

from amity.contract import Model, Silo
from amity.methods import METHODS, build, trainings_ahead


@pytest.mark.parametrize("name", METHODS)
def test_a_model_sees_training_data_before_its_evaluation_only_if_the_table_says_so(name: str) -> None:
    """After the same rounds, silos with other labels: whose evaluated model is another one has worked on them."""
    method, at = build(name), silos()
    (report,) = run(method, at=at, rounds=1)

    def evaluated(of: list[Silo]) -> list[Model]:
        plan, _ = plan_of(method, at=of, rounds=1)
        return models_of(plan, of, opened("loop"), report.saved)

    changed = [not same(a, b) for a, b in zip(evaluated(at), evaluated(list(map(relabelled, at))), strict=True)]
    assert changed == [bool(METHODS[name].for_evaluation)] * len(at)


def test_fine_tuning_is_ahead_by_its_epochs() -> None:
    assert trainings_ahead("fedavg-ft", {}, 5) == trainings_ahead("fedprox-ft", {"ft_epochs": 5}, 5) == 1
    assert (
        trainings_ahead("fedavg-ft", {"ft_epochs": 10}, 5) == 2
        and trainings_ahead("fedavg-ft", {"ft_epochs": 0}, 5) == 0
    )
    assert trainings_ahead("fedamp", {}, 5) == trainings_ahead("perfedavg", {}, 5) == 0
