"""Laws at the edges: one silo at a time, models of zeros, equal models, few silos and many drops."""

from __future__ import annotations

import torch

from amity.contract import Relational, Split
from amity.testing.cases import Case, On, check_equal, finite, law, made_of_numbers, sharing
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


@law(variants=False)
def extreme_norms(case: Case, on: On) -> None:
    """Models so large that their squares overflow, or so small that these vanish, end no round and stay finite."""
    for size in (1e160, 1e-200):
        start = {"weight": size * torch.arange(1.0, 10.0).double().view(3, 3), "bias": torch.zeros(3)}
        rounds = run(sharing(case), on=task(start=start), rounds=2, epochs=1, engine=on)
        states = [state for report in rounds for state in (report.server, *report.clients)]
        assert all(map(made_of_numbers, states)), f"a state is not finite where models begin at {size:g}"
        scores = rounds[-1].scores or []
        assert all(
            said.failed or made_of_numbers(model) for said, model in zip(scores, rounds[-1].models, strict=True)
        ), f"a model is not finite where models begin at {size:g}, and is not said to have failed"


@law(variants=False)
def broken_validation(case: Case, on: On) -> None:
    """A silo whose validation data hold no numbers harms nobody, and gets a model of numbers itself."""
    at = [one._replace(val=one.test) for one in silos()]
    at[1] = at[1]._replace(val=Split(at[1].test.x * torch.nan, at[1].test.y))
    rounds = run(case.method, at=at, rounds=2, epochs=1, engine=on)
    assert all(map(made_of_numbers, rounds[-1].models)), "a model is not finite"
    for report in rounds:  # its own state may note what it has judged
        others = [state for client, state in enumerate(report.clients) if client != 1]
        assert all(map(made_of_numbers, [report.server, *others])), f"round {report.round}: a state is not finite"


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
