"""Laws of symmetry: silos are told apart by their data and names, never by their place; what mixing must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from amity.contract import Relational, Silo
from amity.federation.plan import federation_of
from amity.learn.streams import stream
from amity.testing.cases import FULL, UNEVEN, Case, On, check_equal, law, sharing
from amity.testing.federation import (
    batchnorm,
    flat,
    fresh_task,
    mlp,
    near,
    relabelled,
    run,
    silo,
    silos,
    solver_of,
    task,
    turn_of,
)


def check_relabelling(case: Case, on: On, lossy: dict[str, Any]) -> None:
    """Compare a run with one whose silos stand in another order."""
    order = [3, 0, 4, 1, 2]  # new place -> old place
    at = silos()
    before = run(case.method, at=at, on=task(mlp), epochs=1, engine=on, **lossy)
    after = run(case.method, at=[at[i] for i in order], on=task(mlp), epochs=1, engine=on, **lossy)
    for one, other in zip(before, after, strict=True):
        where = f"round {one.round}"
        assert sorted(order[i] for i in other.took_part) == one.took_part, f"{where}: others took part"
        assert {order[i]: why for i, why in other.dropped.items()} == one.dropped, f"{where}: others were dropped"
        assert {order[i]: epochs for i, epochs in other.epochs.items()} == one.epochs, f"{where}: other epochs"
        assert near(flat(other), flat(one)[order]), f"{where}: personal models are not those of the same silos"
        sent = [(r.bytes_up, r.bytes_down, r.bytes_eval) for r in (one, other)]
        assert sent[0] == sent[1], f"{where}: bytes {sent[0]} and {sent[1]}"
        assert (one.weights is None) == (other.weights is None), f"{where}: weights are missing"
        # Between the equal models of round 1, who of them is kept is a matter of rounding.
        if one.weights is not None and other.weights is not None and one.round > 1:
            moved = one.weights[order][:, order].nan_to_num(nan=9)
            assert near(other.weights.nan_to_num(nan=9), moved), f"{where}: weights are not those of the same silos"


@law()
def relabelling(case: Case, on: On) -> None:
    """Another order of the silos only permutes the results, where not all take part."""
    check_relabelling(case, on, UNEVEN)


@law(variants=False)
def relabelling_of_full_rounds(case: Case, on: On) -> None:
    """Another order of the silos only permutes the results, where all take part."""
    check_relabelling(case, on, FULL)


def twins() -> list[Silo]:
    """Five silos of which three are one and the same, key and all."""
    return [silo("ash", 7), silo("birch", 15, 1), silo("ash", 7), silo("elm", 12, 1), silo("ash", 7)]


@law()
def identical_silos(case: Case, on: On) -> None:
    """Identical silos get identical models, but for a budget, which lets them choose different ones."""
    if "budget" in case.settings:
        return
    for report in run(case.method, at=twins(), epochs=1, engine=on):
        models = flat(report)
        assert near(models[2], models[0]) and near(models[4], models[0]), f"round {report.round}: twins differ"
        if case.method.evaluates == "held":
            assert not near(models[1], models[0]), f"round {report.round}: other silos have the same model"


@law()
def coupling(case: Case, on: On) -> None:
    """Other silos' labels change my model, unless the method sends nothing."""
    at = silos()
    others = [at[0], *(relabelled(one) for one in at[1:])]
    usual, other = (run(case.method, at=x, engine=on)[-1] for x in (at, others))
    moved = (flat(usual)[0] - flat(other)[0]).abs().max().item()
    if usual.bytes_up == 0:
        assert moved == 0, f"nothing is sent, but my model moved by {moved:.3g}"
    else:
        assert moved > 1e-6, f"my model moved by {moved:.3g} only"


@law()
def one_silo(case: Case, on: On) -> None:
    """A silo without others has weight 1 in its own mixture; weights that are learnt are not normalised."""
    for report in run(case.method, at=silos(1), engine=on):
        assert bool(torch.isfinite(flat(report)).all()), f"round {report.round}: the model is not finite"
        if report.weights is not None and (not isinstance(case.method, Relational) or case.name == "fedfomo"):
            assert report.weights.tolist() == [[1.0]], f"round {report.round}: weights {report.weights.tolist()}"


@law(over=("loop",))  # the method's functions are called by hand: no carrier
def equal_models(case: Case, on: On) -> None:
    """The mixture of equal models is that model."""
    model, method = task(batchnorm), sharing(case)
    at = [silo("ash", 7)] * 4
    fed = federation_of(at, 3, 1)
    server, who = method.init_server(model, fed), torch.arange(4)

    def rng(round: int) -> Callable[[str, int], torch.Generator]:
        return lambda role, key: stream(fed.seed, role, key, round)

    down = method.download(server, who, 1, rng(1))
    sent = [
        method.local(model, method.init_client(model, fed, i), down.to(i), turn_of(fed, at, i, solver_of(method)))[1]
        for i in range(4)
    ]
    uploads = {key: torch.stack([upload[key] for upload in sent]) for key in sent[0]}
    server = method.aggregate(server, who, uploads, 1)
    second = method.download(server, who, 2, rng(2))
    for receiver in range(4):
        for key, got in second.to(receiver).items():
            # What only the server knows (coins) and whose models these are (ids) has nothing to agree with.
            if key in uploads and (got.is_floating_point() or key == "counts"):
                own = uploads[key][receiver]
                want = own if got.dim() == 1 else own.expand_as(got)
                assert near(got, want, 1e-12), f"{key}: silos upload one value, the server sends another"


@law()
def rate_zero(case: Case, on: On) -> None:
    """Nothing moves at rate zero: every model is the given start, so every mixture of them is."""
    start = {"weight": torch.linspace(-2, 3, 9).view(3, 3), "bias": torch.tensor([0.5, -1.0, 2.0])}
    rates = {"eta2": 0.0, "ft_lr": 1e-300, "adapt_lr": 0.0, "personal_lr": "same"}
    method = case.with_settings(**rates, init="shared", core_init="shared")
    given = torch.cat([start["weight"].flatten(), start["bias"]]).double()
    lossy: dict[str, Any] = {"participation": 0.8, "drop": 0.3, "drop_phase": "after"}
    solver = solver_of(method, rate=0.0)
    for report in run(method, on=task(start=start), solver=solver, epochs=1, engine=on, **lossy):
        assert near(flat(report), given.expand(5, -1), 1e-12), f"round {report.round}: a model has moved"


@law(variants=False)
def given_start(case: Case, on: On) -> None:
    """Given weights begin every run: its first round depends on them alone."""
    model = task(mlp)
    weights = model.export_state(model.init(stream(77, "given")))
    begun = run(case.method, on=task(mlp, start=weights), rounds=1, engine=on)[0]
    other = run(case.method, on=task(mlp), rounds=1, engine=on)[0]
    assert not near(flat(begun), flat(other)), "given weights change nothing"
    drawn = fresh_task(mlp)
    drawn.initial = lambda fed, client=None: drawn.init(stream(77, "given"))  # type: ignore[method-assign]
    check_equal([begun], run(case.method, on=drawn, rounds=1, engine=on))
    first = task(mlp, start=weights).initial(federation_of(silos(), 1, 1))["params"]
    assert torch.equal(first, model.init(stream(77, "given"))["params"]), "the task does not begin with them"
