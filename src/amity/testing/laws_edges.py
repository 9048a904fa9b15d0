"""Laws at the edges: one silo at a time, models of zeros, equal models, few silos and many drops."""

from __future__ import annotations

import torch

from amity.contract import Relational
from amity.testing.cases import Case, On, check_equal, finite, law, sharing
from amity.testing.federation import flat, run, silo, silos, task


@law()
def one_active(case: Case, on: On) -> None:
    """With one silo in each round all stays finite, and a silo alone in its pool gets its own model."""
    rounds = run(case.method, participation=0.2, rounds=4, epochs=1, engine=on)
    assert all(len(report.took_part) == 1 for report in rounds) and finite(rounds), "not finite, or not one silo"
    learnt = isinstance(case.method, Relational) and case.name != "fedfomo"
    if getattr(case.method, "pool", "active") == "latest" or learnt:
        return
    for report in rounds:
        if report.weights is not None:
            (me,) = report.took_part
            found, wanted = report.weights[me].tolist(), [float(i == me) for i in range(5)]
            assert found == wanted, f"round {report.round}: silo {me} is alone, its weights are {found}"


@law()
def zero_models(case: Case, on: On) -> None:
    """Models that begin as zeros stay finite and move."""
    start = {"weight": torch.zeros(3, 3), "bias": torch.zeros(3)}
    rounds = run(sharing(case), on=task(start=start), participation=0.6, epochs=1, engine=on)
    assert finite(rounds) and flat(rounds[-1]).abs().max() > 0, "not finite, or still zero"


@law()
def equal_silos(case: Case, on: On) -> None:
    """Silos that are all the same stay finite."""
    assert finite(run(case.method, at=[silo("ash", 7)] * 3, epochs=1, engine=on)), "not finite"


@law(variants=False)
def uneven_epochs(case: Case, on: On) -> None:
    """Each silo may train for a number of epochs of its own."""
    rounds = run(case.method, local_epochs_range=(1, 9), engine=on)
    drawn = [epochs for report in rounds for epochs in report.epochs.values()]
    assert len(drawn) == 15 and set(drawn) <= set(range(1, 10)) and len(set(drawn)) > 2, f"epochs {drawn}"
    assert finite(rounds), "not finite"


@law(variants=False)
def few_silos(case: Case, on: On) -> None:
    """Few of many silos take part and some of them drop: all are still measured, all stays finite."""
    for phase in ("before", "after"):
        rounds = run(case.method, at=silos(9), participation=0.3, drop=0.3, drop_phase=phase, rounds=4, engine=on)
        for report in rounds:  # 3 of 9 are sampled, 1 of 3 drops
            assert len(report.took_part) == 2 and len(report.dropped) == 1, f"dropped {phase}: {report.dropped}"
            assert report.scores is not None and len(report.scores) == 9, "not all are measured"
        assert finite(rounds), f"not finite where silos drop {phase} training"


@law(variants=False)
def range_of_one(case: Case, on: On) -> None:
    """A range of one value is that number of epochs."""
    check_equal(
        run(case.method, epochs=3, rounds=1, engine=on),
        run(case.method, local_epochs_range=(3, 3), rounds=1, engine=on),
    )
